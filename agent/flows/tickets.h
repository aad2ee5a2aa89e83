// Tickets hold blocks between two processes of one tenant: a scheduler brings a prefix to host
// memory and takes a ticket, and the workers redeem it, once each rank, for leases of their own.
// Until then the ticket pins the blocks, even if the process that took it has ended.
// docs/design/tickets.md.
//
// A session redeems a ticket by its 128 random bits, and only if it belongs to the tenant that took
// the ticket, in the same domain. To any other session the ticket is unknown. A ticket ends when
// every rank has redeemed it, at its deadline, by release, or with the agent.
//
// Executor thread only. Each tenant has kMaxTicketsPerDomain tickets and kMaxTicketBlocks blocks at
// most. The tickets in a domain hold one part in kTicketPart of its host memory at most; a member
// of a share group may hold one part in kMemberTicketPart of what others leave of that. Invariant,
// checked by Audit(): a holder's counts are those of its tickets.
#ifndef KVTIER_AGENT_FLOWS_TICKETS_H_
#define KVTIER_AGENT_FLOWS_TICKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/flows/onboard.h"
#include "agent/index/block_index.h"
#include "agent/sessions/sessions.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_host/host_tier.h"

namespace kvtier {

using TicketId = std::array<uint8_t, 16>;

// Tenant that takes tickets, in a domain: its own, or that of a share group.
struct TicketHolder {
  DomainId domain{};  // Domain that the blocks lie in.
  DomainId payer{};   // Domain of the tenant to which the tickets are charged.
  static TicketHolder Of(const BlockRun& run) {
    return {.domain = run.domain, .payer = run.payer()};
  }
  friend bool operator==(const TicketHolder&, const TicketHolder&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const TicketHolder& holder) {
    return H::combine(std::move(h), holder.domain, holder.payer);
  }
};

struct TicketRequest {
  std::vector<OnboardRequest> sequences;  // Sequences of one session, to host memory.
  uint32_t redemptions = 1;               // Ranks, 1 to kMaxRedemptions.
  absl::Duration lifetime;  // Lifetime of the ticket, counted from when the blocks are there.
};

// TakenTicket describes a ticket to the worker that took it.
struct TakenTicket {
  struct Sequence {
    std::vector<size_t> indices;  // Indices of the keys whose blocks are there.
    MissReason missed = MissReason::kNone;
  };
  TicketId id{};  // Id of the ticket; all zeros: no block came, so there is no ticket.
  std::vector<Sequence> sequences;
  absl::Time deadline;
};

class Tickets {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    Onboarder* onboarder = nullptr;
    const HostTier* host = nullptr;
  };
  explicit Tickets(const Parts& parts) : parts_(parts) {}

  // Takes a ticket for the blocks of the sequences that are there by the deadline. Ends by that
  // deadline, but for microseconds of work. Errors: kInvalidArgument, naming the field: redemptions
  // or lifetime; kResourceExhausted, naming the limit.
  Task<absl::StatusOr<TakenTicket>> Take(TicketRequest request);
  // Grants `session` leases of the ticket's blocks, sequence by sequence. `spaces` are those that
  // the session means, one for each sequence. Errors: kNotFound, there is no such ticket of the
  // session's holder, it is over, or `rank` has redeemed it or is none of its ranks;
  // kInvalidArgument, `spaces` are not the ticket's, which then stays as it was.
  absl::StatusOr<std::vector<Onboarded>> Redeem(SessionId session, const TicketHolder& holder,
                                                const TicketId& id, uint32_t rank,
                                                const std::vector<SpaceDigest>& spaces);
  // Ends the ticket. Ignores unknown tickets and those of other holders.
  void Release(const TicketHolder& holder, const TicketId& id);
  // Ends the tickets whose deadline has come, up to the one with the kEndedPerSweep-th block.
  // Returns whether some are left.
  bool Sweep();

  size_t size() const { return tickets_.size(); }
  size_t blocks() const;  // Returns how many blocks all tickets pin.
  void Audit() const;

 private:
  struct Ticket {
    TicketHolder holder;
    absl::Time deadline;
    std::vector<OnboardRequest> requests;
    std::vector<Onboarder::Brought> brought;  // Blocks of each request.
    std::vector<bool> redeemed;               // Whether each rank has redeemed the ticket.
    size_t blocks = 0;
    uint64_t bytes = 0;
  };
  struct Use {
    size_t tickets = 0;
    size_t blocks = 0;
    uint64_t bytes = 0;
    friend bool operator==(const Use&, const Use&) = default;
  };
  static absl::Status Check(const TicketRequest& request);
  // Errors: kResourceExhausted, one more ticket like this is beyond its holder's limits.
  absl::Status CheckRoom(const Ticket& ticket) const;
  void End(const TicketId& id);

  const Parts parts_;
  absl::flat_hash_map<TicketId, Ticket> tickets_;
  std::set<std::pair<absl::Time, TicketId>> by_deadline_;
  absl::flat_hash_map<TicketHolder, Use> use_;  // Use by each holder that has tickets.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TICKETS_H_
