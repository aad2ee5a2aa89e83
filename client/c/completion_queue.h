// CompletionQueue hands the ends of submitted calls to whoever polls: an eventfd that
// is readable while completions wait, and a bounded count of what may be outstanding. The C
// library has one for each client.
#ifndef KVTIER_CLIENT_C_COMPLETION_QUEUE_H_
#define KVTIER_CLIENT_C_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "client/c/kvtier.h"
#include "client/client.h"
#include "client/packet_socket.h"

namespace kvtier {

// Makes the completion of a call that has ended, when it is polled. It holds the result until then,
// and gives it back if nobody polls.
using CompletedCall = absl::AnyInvocable<kvtier_completion()>;

// Thread-safe. Outlives every call submitted with it. A forked child has one of its own in its
// place, with an eventfd of another number.
class CompletionQueue {
 public:
  // Submitted and not yet polled: what is waiting is bounded too, but for the parts of calls.
  static constexpr size_t kMaxOutstanding = Client::kMaxSubmitted;

  CompletionQueue();
  ~CompletionQueue();

  // Books a place for one call. False: kMaxOutstanding are taken; poll first.
  bool Book();
  // The booked call was not submitted after all.
  void Unbook();
  // The booked call has ended.
  void Push(CompletedCall completion);
  // The booked call has something to tell and goes on: its place is taken until its end is polled.
  // REQUIRES: the call bounds how often.
  void PushPart(CompletedCall part);
  // Takes up to `limit`, oldest first, and never waits.
  std::vector<CompletedCall> Poll(size_t limit);
  // Readable while completions wait. Owned by the queue; not to be read or written.
  int event_fd() { return Here()->event.get(); }

 private:
  struct Ends {
    Ends();
    const FileDescriptor event;
    absl::Mutex mu;
    struct Waiting {
      CompletedCall completion;
      bool ends_call = true;
    };
    std::deque<Waiting> waiting ABSL_GUARDED_BY(mu);
    size_t outstanding ABSL_GUARDED_BY(mu) = 0;
  };
  // This process's.
  Ends* Here();
  void Add(CompletedCall completion, bool ends_call);

  const std::unique_ptr<Ends> ends_;
  std::atomic<Ends*> childs_ = nullptr;  // Owned. Null: this is no forked child, or none was used.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_C_COMPLETION_QUEUE_H_
