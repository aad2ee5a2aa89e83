// SubmittedCalls knows the asynchronous calls that are under way: how many there may
// be, and how to end them all.
#ifndef KVTIER_CLIENT_SUBMITTED_CALLS_H_
#define KVTIER_CLIENT_SUBMITTED_CALLS_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"

namespace kvtier {

// Thread-safe.
class SubmittedCalls {
 public:
  explicit SubmittedCalls(size_t limit) : limit_(limit) {}

  // False: `limit` are under way. `context` stays valid until Remove().
  bool Add(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (contexts_.size() >= limit_) return false;
    contexts_.insert(context);
    return true;
  }
  void Remove(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    contexts_.erase(context);
  }
  // Cancels all and returns when their callbacks have. REQUIRES: no Add() any more.
  void CancelAndWait() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    // Under the lock, so that none goes while it is cancelled. TryCancel calls nobody
    // back on this thread.
    for (grpc::ClientContext* context : contexts_) context->TryCancel();
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return contexts_.empty(); };
    mu_.Await(absl::Condition(&none));
  }

 private:
  const size_t limit_;
  absl::Mutex mu_;
  absl::flat_hash_set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SUBMITTED_CALLS_H_
