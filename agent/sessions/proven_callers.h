// ProvenCallers are the processes that have an open session, and so have proven their tenant.
#ifndef KVTIER_AGENT_SESSIONS_PROVEN_CALLERS_H_
#define KVTIER_AGENT_SESSIONS_PROVEN_CALLERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

// Thread-safe.
class ProvenCallers {
 public:
  // Notes a session of the caller (SocketPeer); EndSession() takes it back.
  void AddSession(uint64_t caller) {
    absl::MutexLock lock(&mu_);
    ++sessions_[caller];
  }
  // REQUIRES: the caller has a session.
  void EndSession(uint64_t caller) {
    absl::MutexLock lock(&mu_);
    const auto found = sessions_.find(caller);
    if (--found->second == 0) sessions_.erase(found);
  }
  bool Has(uint64_t caller) const {
    absl::MutexLock lock(&mu_);
    return sessions_.contains(caller);
  }

 private:
  mutable absl::Mutex mu_;
  absl::flat_hash_map<uint64_t, size_t> sessions_ ABSL_GUARDED_BY(mu_);  // Number of each caller's.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_PROVEN_CALLERS_H_
