// PrefixKeeper keeps prefixes in host memory for their tenants (KeptPrefixes). Blocks that only a
// disk of this node has are loaded first, as by a prefetch, and blocks that no tier has are not
// kept. A request with the same keys renews what is kept.
//
// Executor thread only. Long calls give way to other tenants.
#ifndef KVTIER_AGENT_FLOWS_KEEP_PREFIX_H_
#define KVTIER_AGENT_FLOWS_KEEP_PREFIX_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/flows/onboard.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/kept_prefixes.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/miss_reason.h"
#include "core/task.h"
#include "core/waits.h"

namespace kvtier {

struct KeepRequest {
  std::vector<BlockRun> sequences;  // Sequences of one session.
  absl::Time deadline;              // End of the wait for blocks that are loaded.
  absl::Duration ttl;               // Time to live, kMinKeptTtl to kMaxKeptTtl, once loaded.
};

// Kept describes a kept prefix to its tenant.
struct Kept {
  struct Sequence {
    std::vector<size_t> indices;  // Indices of the keys whose blocks are kept.
    MissReason missed = MissReason::kNone;
  };
  KeptId id{};  // Id of the kept prefix; 0: no block is kept.
  std::vector<Sequence> sequences;
  // Limit that stopped the node from keeping more of its blocks.
  KeepLimit limit = KeepLimit::kNone;
  absl::Time deadline;
};

class PrefixKeeper {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    FairTurns* turns = nullptr;
    Waits* waits = nullptr;
    Onboarder* onboarder = nullptr;
    KeptPrefixes* kept = nullptr;
  };
  explicit PrefixKeeper(const Parts& parts) : parts_(parts) {}

  // Keeps the leading blocks of the sequences that are here and that fit into the tenant's quota.
  // Ends by the deadline, but for microseconds of work. Errors: kInvalidArgument, the ttl.
  Task<absl::StatusOr<Kept>> Keep(KeepRequest request);
  // Ends the domain's prefix of that id, 0: all of them; returns how many there were.
  Task<size_t> End(DomainId domain, KeptId id);

 private:
  struct Filling {
    KeptPrefixes::Handle handle{};
    DomainId payer{};  // Domain whose turns it takes.
  };
  // Gives the prefix its blocks, in place of its earlier ones. Returns false if it was ended
  // meanwhile.
  Task<bool> Fill(Filling filling, std::vector<Onboarder::Brought>* brought, Kept* kept);
  // Cuts off blocks for which the domain's quota of bytes has no room. Returns whether there were
  // any.
  bool Cut(std::vector<BlockRun>* sequences) const;

  const Parts parts_;
  // Events of the prefixes that are being filled; an event is set when its prefix is filled.
  absl::flat_hash_map<KeptPrefixes::Handle, std::shared_ptr<Event>> filling_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_KEEP_PREFIX_H_
