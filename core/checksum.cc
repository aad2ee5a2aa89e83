#include "core/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // Turns XXH3_* into the widest form this CPU has.
#endif

#include <array>

#include "absl/strings/str_cat.h"

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

absl::Status VerifyPayload(const BlockKey& key, uint64_t length, const PayloadSum& sum,
                           std::span<const std::byte> payload) {
  if (payload.size() != length) {
    return absl::DataLossError(
        absl::StrCat("block ", key.ToHex(), " has ", payload.size(), " bytes, expected ", length));
  }
  if (const PayloadSum actual = SumPayload(payload); actual != sum) {
    return absl::DataLossError(absl::StrCat(
        "block ", key.ToHex(), ": payload sum ", absl::Hex(actual.hi, absl::kZeroPad16),
        absl::Hex(actual.lo, absl::kZeroPad16), ", expected ", absl::Hex(sum.hi, absl::kZeroPad16),
        absl::Hex(sum.lo, absl::kZeroPad16)));
  }
  return absl::OkStatus();
}

}  // namespace kvtier
