#include "core/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // Turns XXH3_* into the widest form this CPU has.
#endif

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"

namespace kvtier {

namespace {

// The library picks its form on the first long input, without a lock: make that
// one happen before any other. Inputs over 240 bytes are long.
void PickVectorForm() {
  [[maybe_unused]] static const XXH128_hash_t first = [] {
    const std::array<char, 1024> zeros{};
    return XXH3_128bits(zeros.data(), zeros.size());
  }();
}

}  // namespace

PayloadSum SumPayload(std::span<const std::byte> payload) {
  PickVectorForm();
  const XXH128_hash_t sum = XXH3_128bits(payload.data(), payload.size());
  return {.hi = sum.high64, .lo = sum.low64};
}

uint64_t Seal(const BlockIdentity& identity, const PayloadSum& sum) {
  std::array<uint8_t, 80> bytes;  // 6 integers of 8 bytes and the digest's 32.
  uint8_t* out = bytes.data();
  out = StoreLittle(identity.key.hi, out);
  out = StoreLittle(identity.key.lo, out);
  out = std::copy(identity.space.bytes.begin(), identity.space.bytes.end(), out);
  out = StoreLittle(identity.length, out);
  out = StoreLittle(identity.generation, out);
  out = StoreLittle(sum.hi, out);
  StoreLittle(sum.lo, out);
  return XXH3_64bits(bytes.data(), bytes.size());
}

absl::Status VerifyBlock(const BlockIdentity& identity, const PayloadSum& sum, uint64_t seal,
                         std::span<const std::byte> payload) {
  if (payload.size() != identity.length) {
    return absl::DataLossError(absl::StrCat("block ", identity.key.ToHex(), " has ", payload.size(),
                                            " bytes, expected ", identity.length));
  }
  if (const uint64_t expected = Seal(identity, sum); seal != expected) {
    return absl::DataLossError(absl::StrCat(
        "block ", identity.key.ToHex(), " at generation ", identity.generation, ": seal ",
        absl::Hex(seal, absl::kZeroPad16), ", expected ", absl::Hex(expected, absl::kZeroPad16)));
  }
  if (const PayloadSum actual = SumPayload(payload); actual != sum) {
    return absl::DataLossError(absl::StrCat(
        "block ", identity.key.ToHex(), ": payload sum ", absl::Hex(actual.hi, absl::kZeroPad16),
        absl::Hex(actual.lo, absl::kZeroPad16), ", expected ", absl::Hex(sum.hi, absl::kZeroPad16),
        absl::Hex(sum.lo, absl::kZeroPad16)));
  }
  return absl::OkStatus();
}

}  // namespace kvtier
