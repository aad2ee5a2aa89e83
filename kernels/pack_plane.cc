#include "kernels/pack_plane.h"

#include <algorithm>
#include <cstring>

#include "kernels/exponents.h"
#include "kernels/tile.h"

namespace kvtier::kernels {
namespace {

constexpr uint64_t kTileBytes = sizeof(Bf16Tile);

// Escapes are the exponents that did not fit, in the order of the elements.
template <typename Byte>
struct Escapes {
  Byte* next = nullptr;
  Byte* end = nullptr;
};

uint8_t LargestExponent(const std::byte* row, uint64_t tiles) {
  Bf16Tile largest{};
  for (uint64_t i = 0; i < tiles; ++i) {
    const auto elements = Load<Bf16Tile>(row + i * kTileBytes);
    for (uint32_t j = 0; j < kCodecTile; ++j) {
      const uint16_t exponent = elements[j] & kExponentMask;
      largest[j] = largest[j] < exponent ? exponent : largest[j];
    }
  }
  return ExponentOf(*std::max_element(largest.begin(), largest.end()));
}

bool HasEscape(const CodeTile& deltas) {
  uint8_t any = 0;
  for (uint32_t i = 0; i < kCodecTile; ++i) any |= deltas[i] == kDeltaEscape ? 1 : 0;
  return any != 0;
}

bool AppendEscapes(const Bf16Tile& elements, const CodeTile& deltas, Escapes<std::byte>& escapes) {
  for (uint32_t i = 0; i < kCodecTile; ++i) {
    if (deltas[i] != kDeltaEscape) continue;
    if (escapes.next == escapes.end) return false;
    *escapes.next++ = std::byte{ExponentOf(elements[i])};
  }
  return true;
}

bool TakeEscapes(const CodeTile& deltas, CodeTile& exponents, Escapes<const std::byte>& escapes) {
  for (uint32_t i = 0; i < kCodecTile; ++i) {
    if (deltas[i] != kDeltaEscape) continue;
    if (escapes.next == escapes.end) return false;
    exponents[i] = std::to_integer<uint8_t>(*escapes.next++);
  }
  return true;
}

}  // namespace

bool PackPlane(const KvShape& shape, const std::byte* raw, std::byte* encoded) {
  const PackedPlane plane = PackedPlaneOf(shape);
  const uint64_t row_tiles = shape.head_dim / kCodecTile;
  std::byte* signs = encoded + plane.signs;
  std::byte* deltas = encoded + plane.deltas;
  std::byte* const first = encoded + plane.escapes + sizeof(uint32_t);
  Escapes<std::byte> escapes = {.next = first, .end = first + plane.most_escapes()};
  for (uint64_t row = 0; row < Rows(shape); ++row) {
    const uint8_t base = LargestExponent(raw, row_tiles);
    if (base == 0xff) return false;
    encoded[row] = std::byte{base};
    for (uint64_t i = 0; i < row_tiles; ++i) {
      const auto elements = Load<Bf16Tile>(raw);
      CodeTile sign_tile;
      CodeTile delta_tile;
      for (uint32_t j = 0; j < kCodecTile; ++j) {
        sign_tile[j] = SignMantissaOf(elements[j]);
        delta_tile[j] = DeltaOf(base, ExponentOf(elements[j]));
      }
      if (HasEscape(delta_tile) && !AppendEscapes(elements, delta_tile, escapes)) return false;
      Store(sign_tile, signs);
      StoreNibbles(delta_tile, deltas);
      raw += kTileBytes;
      signs += kCodecTile;
      deltas += kNibbleBytes;
    }
  }
  std::fill(encoded + Rows(shape), encoded + plane.signs, std::byte{0});
  std::fill(deltas, encoded + plane.escapes, std::byte{0});
  std::fill(escapes.next, escapes.end, std::byte{0});
  Store(static_cast<uint32_t>(escapes.next - first), encoded + plane.escapes);
  return true;
}

bool UnpackPlane(const KvShape& shape, const std::byte* encoded, std::byte* raw) {
  const PackedPlane plane = PackedPlaneOf(shape);
  const uint64_t row_tiles = shape.head_dim / kCodecTile;
  const std::byte* signs = encoded + plane.signs;
  const std::byte* deltas = encoded + plane.deltas;
  const std::byte* const first = encoded + plane.escapes + sizeof(uint32_t);
  const auto count = Load<uint32_t>(encoded + plane.escapes);
  if (count > plane.most_escapes()) return false;
  Escapes<const std::byte> escapes = {.next = first, .end = first + count};
  for (uint64_t row = 0; row < Rows(shape); ++row) {
    const auto base = std::to_integer<uint8_t>(encoded[row]);
    for (uint64_t i = 0; i < row_tiles; ++i) {
      const auto sign_tile = Load<CodeTile>(signs);
      const CodeTile delta_tile = LoadNibbles(deltas);
      CodeTile exponents;
      for (uint32_t j = 0; j < kCodecTile; ++j) exponents[j] = ExponentAt(base, delta_tile[j]);
      if (HasEscape(delta_tile) && !TakeEscapes(delta_tile, exponents, escapes)) return false;
      Bf16Tile elements;
      for (uint32_t j = 0; j < kCodecTile; ++j) elements[j] = Bf16Of(sign_tile[j], exponents[j]);
      Store(elements, raw);
      raw += kTileBytes;
      signs += kCodecTile;
      deltas += kNibbleBytes;
    }
  }
  return escapes.next == escapes.end;
}

}  // namespace kvtier::kernels
