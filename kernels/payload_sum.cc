#include "kernels/payload_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kvtier::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "XXH3 reads little-endian words.");

constexpr uint64_t kSecret[kXxh3SecretWords] = KVTIER_XXH3_SECRET;
constexpr uint64_t kStripes = kXxh3PieceBytes / kXxh3StripeBytes;

void AddStripe(const std::byte* stripe, uint32_t secret_byte, uint64_t* state) {
  for (uint32_t i = 0; i < kXxh3Lanes; ++i) {
    uint64_t word;
    std::memcpy(&word, stripe + uint64_t{i} * sizeof(word), sizeof(word));
    state[i ^ 1] += word;
    state[i] += Xxh3Product(word, Xxh3Secret(kSecret, secret_byte + 8 * i));
  }
}

void AddStripes(const std::byte* piece, uint64_t stripes, uint64_t* state) {
  for (uint32_t i = 0; i < stripes; ++i) AddStripe(piece + i * kXxh3StripeBytes, 8 * i, state);
}

}  // namespace

void PayloadSummer::AddPiece() {
  AddStripes(piece_.data(), kStripes, state_);
  for (uint32_t i = 0; i < kXxh3Lanes; ++i) {
    state_[i] = Xxh3Stir(state_[i], Xxh3Secret(kSecret, kXxh3StirSecret + 8 * i));
  }
  std::copy(piece_.end() - kXxh3StripeBytes, piece_.end(), last_.begin());
  held_ = 0;
}

void PayloadSummer::Append(const std::byte* bytes, uint64_t count) {
  bytes_ += count;
  while (count > 0) {
    // Added only now, when it is known not to be the last piece.
    if (held_ == kXxh3PieceBytes) AddPiece();
    const uint64_t taken = std::min(count, kXxh3PieceBytes - held_);
    std::memcpy(piece_.data() + held_, bytes, taken);
    held_ += taken;
    bytes += taken;
    count -= taken;
  }
}

PayloadSum PayloadSummer::Sum() const {
  uint64_t state[kXxh3Lanes];
  std::copy_n(state_, kXxh3Lanes, state);
  AddStripes(piece_.data(), (held_ - 1) / kXxh3StripeBytes, state);
  std::array<std::byte, kXxh3StripeBytes> last;
  const uint64_t here = std::min(held_, kXxh3StripeBytes);
  std::copy(last_.begin() + static_cast<std::ptrdiff_t>(here), last_.end(), last.begin());
  std::memcpy(last.data() + last.size() - here, piece_.data() + held_ - here, here);
  AddStripe(last.data(), kXxh3LastSecret, state);
  return {.hi = Xxh3High(state, kSecret, bytes_),
          .lo = Xxh3Low(state, kSecret, bytes_),
          .bytes = bytes_};
}

}  // namespace kvtier::kernels
