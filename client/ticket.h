// PinTicket holds blocks for other processes of the tenant: a scheduler brings a prefix to host
// memory and takes a ticket, and each worker redeems it by its 16 bytes for leases of its own. It
// is no lease: a ticket must be redeemed before blocks are read. See docs/design/tickets.md.
#ifndef KVTIER_CLIENT_TICKET_H_
#define KVTIER_CLIENT_TICKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/miss_reason.h"

namespace kvtier {

// 128 random bits. The scheduler hands them to the workers by any means.
using TicketId = std::array<uint8_t, 16>;

struct TicketOptions {
  // Longest wait for the blocks, no longer than recomputing takes. Absent: default_timeout.
  std::optional<absl::Duration> timeout{};
  bool local_only = false;   // Whether no other node is ever asked.
  uint32_t redemptions = 1;  // Ranks that redeem it, 1 to 64: each once.
  // Time for which the blocks are held, from the answer on: 1 ms to a minute.
  absl::Duration lifetime = absl::Seconds(10);
};

struct PinTicket {
  struct Sequence {
    std::vector<size_t> key_indices;  // Places of the keys whose blocks are held; a run: 0, 1, ...
    // Reason for which the first missing block did not come.
    MissReason missed = MissReason::kUnreachable;
  };
  std::optional<TicketId> id;       // Id of the ticket; absent: nothing is held.
  std::vector<Sequence> sequences;  // One entry for each sequence asked.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_TICKET_H_
