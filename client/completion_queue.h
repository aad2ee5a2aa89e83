// CompletionQueue hands the ends of submitted calls to whoever polls: an eventfd that
// is readable while completions wait, and a bounded count of what may be outstanding.
// The C library and the Python package share it.
#ifndef KVTIER_CLIENT_COMPLETION_QUEUE_H_
#define KVTIER_CLIENT_COMPLETION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "client/packet_socket.h"

namespace kvtier {

struct Completion {
  uint64_t tag = 0;  // The submitter's.
  // What the call would have returned, told apart by `kind`: two reserve, and commit and
  // prefetch are counts.
  enum class Kind : uint8_t { kMatch, kOnboard, kReserve, kCommit, kPrefetch, kReserveEntries };
  Kind kind = Kind::kMatch;
  std::variant<size_t, MatchedPrefix, OnboardedBlocks, ReservedBlocks> result;
};

// Thread-safe. Outlives every call submitted with it.
class CompletionQueue {
 public:
  // Submitted and not yet polled: what is waiting is bounded too.
  static constexpr size_t kMaxOutstanding = Client::kMaxSubmitted;

  CompletionQueue();

  // Books a place for one call. False: kMaxOutstanding are taken; poll first.
  bool Book() ABSL_LOCKS_EXCLUDED(mu_);
  // The booked call was not submitted after all.
  void Unbook() ABSL_LOCKS_EXCLUDED(mu_);
  // The booked call has ended.
  void Push(Completion completion) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes up to `limit`, oldest first, and never waits.
  std::vector<Completion> Poll(size_t limit) ABSL_LOCKS_EXCLUDED(mu_);
  // Readable while completions wait. Owned by the queue; not to be read or written.
  int event_fd() const { return event_.get(); }

 private:
  const FileDescriptor event_;
  absl::Mutex mu_;
  std::deque<Completion> ended_ ABSL_GUARDED_BY(mu_);
  size_t outstanding_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_COMPLETION_QUEUE_H_
