// CallBudget bounds what the calls of one service that are under way take of memory, and cuts those
// that lasted too long when others need theirs.
#ifndef KVTIER_AGENT_SERVICES_CALL_BUDGET_H_
#define KVTIER_AGENT_SERVICES_CALL_BUDGET_H_

#include <cstddef>
#include <list>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"

namespace kvtier {

// Thread-safe. REQUIRES: it outlives the server.
class CallBudget {
 public:
  struct Limits {
    size_t bytes = 0;  // As MemoryOf() counts them, all calls together.
    // A caller that does not read its answer holds it; this long after it began, a call makes
    // room for others.
    absl::Duration duration;
  };
  explicit CallBudget(Limits limits) : limits_(limits) {}

  // Returns what a call takes of memory: its request, its answer, gRPC's part and its flow.
  static size_t MemoryOf(const google::protobuf::MessageLite& request);

  // One call's share of the budget. Its owner ends it by End().
  class Share {
   public:
    explicit Share(size_t bytes) : bytes_(bytes), began_(absl::Now()) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    virtual ~Share() = default;
    // Ends the call soon, without a call of the budget's before it returns.
    virtual void Cut() = 0;

   private:
    friend class CallBudget;
    const size_t bytes_;
    const absl::Time began_;
    bool is_counted_ = false;               // Of CallBudget::mu_, as what follows.
    std::list<Share*>::iterator position_;  // Where it is counted.
  };

  // Errors: kResourceExhausted, the call is beyond limits.bytes; those that lasted too long are cut
  // for the next one.
  absl::Status Begin(Share* share) ABSL_LOCKS_EXCLUDED(mu_);
  // Also where Begin() failed.
  void End(Share* share) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns what the calls under way take together.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const Limits limits_;
  mutable absl::Mutex mu_;
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Share*> calls_ ABSL_GUARDED_BY(mu_);  // The one that began first is in front.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_CALL_BUDGET_H_
