// StripeForm is the inner loop of core/copy_sum.h: it moves stripes of 64 bytes and adds each to
// XXH3's eight accumulators while it is in a register. There is a form for AVX2 and one in plain
// C++; both give the same bytes and the same accumulators. (A form for AVX-512 was not faster on
// any processor measured: both wait for memory.)
//
// Thread-safe: no state.
#ifndef KVTIER_CORE_STRIPE_FORM_H_
#define KVTIER_CORE_STRIPE_FORM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/checksum.h"

namespace kvtier {

inline constexpr size_t kStripeBytes = 64;

// StripeSums holds XXH3's accumulators between two runs of stripes; begins as XXH3 begins.
struct alignas(64) StripeSums {
  StripeSums();
  std::array<uint64_t, 8> lanes;
  size_t stripes = 0;  // Number of stripes added so far.
};

// The kind of stores that write the destination.
enum class Stores {
  kCached,     // Ordinary ones.
  kStreaming,  // Past the caches, where the form and the destination's alignment (16) allow it.
};

struct StripeForm {
  const char* name;
  // Copies `stripes` * 64 bytes and adds them to `sums` after the stripes that it has. Adds the
  // bytes that were stored, even if `in` changes meanwhile. Streaming stores are ordered with later
  // stores only by FinishStores().
  void (*move)(const std::byte* in, std::byte* out, size_t stripes, Stores stores,
               StripeSums* sums);
};

// Returns the forms that this processor can run, the fastest first and plain C++ last.
std::span<const StripeForm> StripeForms();

// Orders streaming stores before every later store.
void FinishStores();

// Returns the sum of `bytes` bytes, whose stripes but the last are in `sums`; `last` is the 64
// bytes at their end. REQUIRES: bytes > 240 (XXH3 sums shorter ones otherwise) and
// sums->stripes == (bytes - 1) / 64. Leaves `sums` unusable.
PayloadSum FinishSum(StripeSums* sums, std::span<const std::byte, kStripeBytes> last, size_t bytes);

}  // namespace kvtier

#endif  // KVTIER_CORE_STRIPE_FORM_H_
