// SubmittedCalls runs the asynchronous calls of one client. It bounds how many are in progress, has
// the threads that send and end them, and can end them all.
//
// Sending through gRPC takes 40 us, which an engine's step does not have, so a thread that submits
// only wakes the thread that sends. The thread that ends calls does not send, because it runs
// callbacks.
//
// SubmittedCalls has a completion queue of its own, because gRPC's callback threads end with the
// last channel that used them. If a callback dropped that channel, as the end of a call may do, the
// thread would join itself, and gRPC 1.51 would abort the process.
#ifndef KVTIER_CLIENT_SUBMITTED_CALLS_H_
#define KVTIER_CLIENT_SUBMITTED_CALLS_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/completion_queue.h"

namespace kvtier {

// Thread-safe.
class SubmittedCalls {
 public:
  // A Call holds one call and all objects that it needs until it has ended.
  class Call {
   public:
    virtual ~Call() = default;
    // Sends the request, in the sending thread. `this` is the tag of the call's operations in the
    // queue, one at a time. The queue's thread may destroy the call before Start() returns.
    virtual void Start(grpc::CompletionQueue* queue) = 0;
    // Takes an answer of the queue, in the queue's thread. Returns true if it was the last: the end
    // of the call, or an error. Returns false if the call has begun another operation that the
    // queue will answer. `ok` is the queue's.
    virtual bool Advance(bool ok) = 0;
    // Completes the call. Called once, from the queue's thread, when Advance() has returned true.
    virtual void Complete() = 0;
    // Cancels the call. Called by any thread, between Launch() and Complete(), also before Start().
    virtual void Cancel() = 0;
  };

  explicit SubmittedCalls(size_t limit) : limit_(limit) {}
  // REQUIRES: nothing is in progress.
  ~SubmittedCalls();

  // Books a place for one call. Returns false if `limit` calls have one.
  bool Book() ABSL_LOCKS_EXCLUDED(mu_);
  // Frees the place of a booked call that is not sent.
  void Unbook() ABSL_LOCKS_EXCLUDED(mu_);
  // Hands the booked call to the thread that sends it. Never waits for gRPC.
  void Launch(std::unique_ptr<Call> call) ABSL_LOCKS_EXCLUDED(mu_);
  // Cancels all calls and returns when they have completed and are destroyed. REQUIRES: Book() is
  // not called any more, and this is not the queue's thread.
  void CancelAndWait() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Bodies of the threads that send and end calls.
  void SendAll(grpc::CompletionQueue* queue);
  void EndAll(grpc::CompletionQueue* queue);

  const size_t limit_;
  absl::Mutex mu_;
  size_t booked_ ABSL_GUARDED_BY(mu_) = 0;
  // A call that has freed its place is completing.
  bool completing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_set<Call*> launched_ ABSL_GUARDED_BY(mu_);  // Launched and not completed.
  // Calls that are not sent yet, in the order of Launch().
  std::deque<Call*> unsent_ ABSL_GUARDED_BY(mu_);
  // The next three members are set at the first call, so that a client that submits none uses no
  // gRPC here.
  std::optional<grpc::CompletionQueue> queue_ ABSL_GUARDED_BY(mu_);
  std::thread sender_ ABSL_GUARDED_BY(mu_);
  std::thread ender_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SUBMITTED_CALLS_H_
