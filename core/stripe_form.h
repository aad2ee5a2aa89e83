// The inner loop of core/copy_sum.h: moves stripes of 64 bytes and adds each to XXH3's eight
// accumulators while it is in a register. One form for each width of an x86-64's vector
// registers, and one in plain C++; all give the same bytes and the same accumulators.
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

// How XXH3 starts; the library's names for its constants are in the source file.
struct alignas(64) StripeSums {
  StripeSums();
  std::array<uint64_t, 8> lanes;
  size_t stripes = 0;  // Added so far, without the last one.
};

// What a destination is written with.
enum class Stores {
  kCached,     // As any store.
  kStreaming,  // Past the caches, where the form and the destination's alignment allow it.
};

struct StripeForm {
  const char* name;
  // Copies `stripes` * 64 bytes, which follow the stripes that `sums` has, and adds them. What is
  // added is what was stored, also when `in` changes meanwhile. Streaming stores are not ordered
  // with later stores before FinishStores().
  void (*move)(const std::byte* in, std::byte* out, size_t stripes, Stores stores,
               StripeSums* sums);
};

// Returns the forms that this processor can run, the fastest first; the last is plain C++.
std::span<const StripeForm> StripeForms();

// Orders streaming stores before every later store.
void FinishStores();

// Returns the sum of `bytes` bytes, whose stripes but the last are in `sums`; `last` is the 64
// bytes at their end. REQUIRES: bytes > 240 (XXH3 sums shorter ones otherwise) and
// sums->stripes == (bytes - 1) / 64. `sums` is of no use afterwards.
PayloadSum FinishSum(StripeSums* sums, std::span<const std::byte, kStripeBytes> last, size_t bytes);

}  // namespace kvtier

#endif  // KVTIER_CORE_STRIPE_FORM_H_
