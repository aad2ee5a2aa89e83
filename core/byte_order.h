// Integers as bytes in a stated order, for what leaves the process: digests,
// seals, keys, records.
#ifndef KVTIER_CORE_BYTE_ORDER_H_
#define KVTIER_CORE_BYTE_ORDER_H_

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace kvtier {

// Write the sizeof(T) bytes of `value` at `out` and return the byte after them. Loops instead of
// casts work at any alignment and on any host; compilers make one store of each loop.
template <std::unsigned_integral T>
constexpr uint8_t* StoreLittle(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
  return out + sizeof(T);
}

template <std::unsigned_integral T>
constexpr uint8_t* StoreBig(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out[i] = static_cast<uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
  }
  return out + sizeof(T);
}

// Reads a T written by StoreLittle.
template <std::unsigned_integral T>
constexpr T LoadLittle(const uint8_t* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{in[i]} << (8 * i));
  return value;
}

// Reads a T written by StoreBig.
template <std::unsigned_integral T>
constexpr T LoadBig(const uint8_t* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8 | in[i]);
  return value;
}

}  // namespace kvtier

#endif  // KVTIER_CORE_BYTE_ORDER_H_
