// SignalPage is shared memory of words by which lanes, compute and processes wait for each
// other. A word that is waited for only goes up; who waits, waits for a value or more. The
// page lies in host memory, so that a process can release those who wait for a dead one.
#ifndef KVTIER_TIER_GPU_DEVICE_SIGNAL_PAGE_H_
#define KVTIER_TIER_GPU_DEVICE_SIGNAL_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace kvtier {

using SignalWord = std::atomic<uint64_t>;
static_assert(SignalWord::is_always_lock_free && sizeof(SignalWord) == 8);

// More than any word counts to: whoever waits goes on, and whoever then looks at the
// word knows that what it waited for will never be. Half of what fits: a GPU that waits
// compares the difference as a signed number, so from 2^63 on everything looks too small.
inline constexpr uint64_t kReleased = ~uint64_t{0} >> 1;

inline constexpr size_t kSignalPageBytes = 4096;
// Words a cache line apart, so that two writers do not slow each other.
inline constexpr size_t kSignalWords = kSignalPageBytes / 64;

// Any thread, any process: the words are atomic. Immutable otherwise.
class SignalPage {
 public:
  // A new page, all words 0. Errors: kResourceExhausted, with errno's text.
  static absl::StatusOr<std::unique_ptr<SignalPage>> Create();
  ~SignalPage();
  SignalPage(const SignalPage&) = delete;
  SignalPage& operator=(const SignalPage&) = delete;

  // REQUIRES: index < kSignalWords.
  SignalWord* word(size_t index) const;
  // Who waits for any of these words goes on. For the words of a process that died. Its
  // GPU may still make a last write, and a word goes down again: whoever releases does so
  // until nobody waits.
  void Release(size_t first, size_t count) const;
  // To be given to another process by SCM_RIGHTS; owned by the page.
  int descriptor() const { return descriptor_; }
  // For Device::Pin().
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  SignalPage(int descriptor, std::span<std::byte> bytes) : descriptor_(descriptor), bytes_(bytes) {}
  const int descriptor_;
  const std::span<std::byte> bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_SIGNAL_PAGE_H_
