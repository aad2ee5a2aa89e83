// SignalPage is shared memory of words by which lanes, compute and processes wait for each other. A
// word that is waited for only rises, and a wait is for a value or more. The page is in host
// memory, so that a process can release lanes and processes that wait for a dead one.
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

// Value above any that a word counts to: every waiter goes on, and a waiter that then reads this
// value knows that nobody will write the value that it waited for. It is half of what fits, because
// a GPU compares the difference as a signed number: from 2^63 on every value looks too small.
inline constexpr uint64_t kReleased = ~uint64_t{0} >> 1;

inline constexpr size_t kSignalPageBytes = 4096;
// Number of words, each in a cache line of its own so that two writers do not slow each other.
inline constexpr size_t kSignalWords = kSignalPageBytes / 64;

// SignalPage owns one page of atomic words. Usable on any thread in any process: nothing but the
// words changes.
class SignalPage {
 public:
  // Creates a page with all words 0. Errors: kResourceExhausted, with the text of errno.
  static absl::StatusOr<std::unique_ptr<SignalPage>> Create();
  ~SignalPage();
  SignalPage(const SignalPage&) = delete;
  SignalPage& operator=(const SignalPage&) = delete;

  // Returns a word. REQUIRES: index < kSignalWords.
  SignalWord* word(size_t index) const;
  // Releases everything that waits for one of these words, whose writer died. The dead process's
  // GPU may still make a last write that lowers a word again, so the caller releases repeatedly
  // until nothing waits.
  void Release(size_t first, size_t count) const;
  // Returns the descriptor, which may be sent to another process by SCM_RIGHTS; the page owns it.
  int descriptor() const { return descriptor_; }
  // Returns the page's memory, for Device::Pin().
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  SignalPage(int descriptor, std::span<std::byte> bytes) : descriptor_(descriptor), bytes_(bytes) {}
  const int descriptor_;
  const std::span<std::byte> bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_SIGNAL_PAGE_H_
