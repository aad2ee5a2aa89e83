// CallBudget bounds the memory of the calls of one service that are in progress, and cuts calls
// that lasted too long when others need the memory. Calls of workers are charged to their tenants
// (CallShares); all calls without a tenant share one limit.
#ifndef KVTIER_AGENT_SERVICES_CALL_BUDGET_H_
#define KVTIER_AGENT_SERVICES_CALL_BUDGET_H_

#include <cstddef>
#include <list>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "agent/sessions/call_shares.h"
#include "core/clock.h"
#include "google/protobuf/message_lite.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// Thread-safe. REQUIRES: it outlives the server.
class CallBudget {
 public:
  struct Limits {
    // Largest sum of MemoryOf() over the calls in progress that are no tenant's.
    size_t bytes = 0;
    // Age from which a call may be cut to make room for others: its caller does not read the
    // answer, and so holds its memory.
    absl::Duration duration;
  };
  // Does not own `tenants`. Null: no call is a tenant's.
  explicit CallBudget(Limits limits, CallShares* tenants = nullptr)
      : limits_(limits), tenants_(tenants) {}

  // Returns the bytes of memory that a call takes: its request, its answer, gRPC's part and its
  // flow.
  static size_t MemoryOf(const google::protobuf::MessageLite& request);

  // Share is one call's share of the budget. Its owner ends it by End().
  class Share {
   public:
    explicit Share(size_t bytes) : bytes_(bytes), began_(MonotonicClock().Now()) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    virtual ~Share() = default;
    // Lets the call end soon. Must not call the budget before it returns.
    virtual void Cut() = 0;

   private:
    friend class CallBudget;
    const size_t bytes_;
    const absl::Time began_;
    std::optional<DomainId> tenant_;        // Tenant that is charged; nullopt: none.
    bool is_counted_ = false;               // Guarded by CallBudget::mu_, as the next.
    std::list<Share*>::iterator position_;  // Place in the list in which the share is counted.
  };

  // Charges the call to the tenant of the session that has the token, or to no tenant. Errors:
  // kResourceExhausted, there is no room for the call; Begin() then cuts calls that lasted too
  // long, to make room for later ones.
  absl::Status Begin(Share* share, absl::string_view session_token = {}) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the call. The caller must do so also where Begin() failed.
  void End(Share* share) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns what the calls in progress that are no tenant's take together.
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Counts the call where there is room for it.
  absl::Status Count(Share* share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Cuts the calls that had lasted too long when `share` began.
  void CutLong(const Share& share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Limits limits_;
  CallShares* const tenants_;
  mutable absl::Mutex mu_;
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;         // Bytes of calls that are no tenant's.
  std::list<Share*> calls_ ABSL_GUARDED_BY(mu_);  // The one that began first is in front.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_CALL_BUDGET_H_
