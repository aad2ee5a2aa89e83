// CompletionQueue hands the completions of submitted calls to the thread that polls. It has an
// eventfd that is readable while completions wait, and it bounds how many calls are outstanding.
// The C library has one for each client.
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

// CompletedCall returns the completion of a call that has ended; Poll() calls it. Until then it
// owns the call's result. If nobody polls, its destructor gives the leases or slots back.
using CompletedCall = absl::AnyInvocable<kvtier_completion()>;

// Thread-safe. It outlives every call submitted with it. In a forked child the object works on a
// queue of the child's own, whose eventfd has another number.
class CompletionQueue {
 public:
  // Calls that are submitted and not yet polled, at most. This bounds the waiting completions, too,
  // except the parts of calls.
  static constexpr size_t kMaxOutstanding = Client::kMaxSubmitted;

  CompletionQueue();
  ~CompletionQueue();

  // Books a place for one call. Returns false if all kMaxOutstanding places are taken: poll first.
  bool Book();
  // Frees the place of a booked call that was not submitted after all.
  void Unbook();
  // Queues the completion of a booked call that has ended.
  void Push(CompletedCall completion);
  // Queues a part of a booked call that goes on; its place stays taken until its end is polled.
  // REQUIRES: the call bounds how many parts it pushes.
  void PushPart(CompletedCall part);
  // Returns up to `limit` completions, oldest first. Never waits.
  std::vector<CompletedCall> Poll(size_t limit);
  // Returns the eventfd, which is readable while completions wait. The queue owns it; the caller
  // neither reads nor writes it.
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
  // Returns the queue of this process: of a forked child its own.
  Ends* Here();
  void Add(CompletedCall completion, bool ends_call);

  const std::unique_ptr<Ends> ends_;
  // Queue of a forked child; owned. Null: this process is no forked child, or has not used it yet.
  std::atomic<Ends*> childs_ = nullptr;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_C_COMPLETION_QUEUE_H_
