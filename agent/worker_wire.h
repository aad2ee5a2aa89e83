// What the flows for workers answer, as kvtier.v1 messages.
#ifndef KVTIER_AGENT_WORKER_WIRE_H_
#define KVTIER_AGENT_WORKER_WIRE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/match.h"
#include "agent/onboard.h"
#include "agent/put.h"
#include "agent/tickets.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

// Returns a time of the node's monotonic clock in nanoseconds.
uint64_t MonotonicNanos(absl::Time time);

// Errors: kInvalidArgument, not 16 bytes.
absl::StatusOr<TicketId> TicketFrom(const std::string& wire);

// Each fills an empty message.
void FillMatched(const Matched& matched, v1::MatchedSequence* wire);
// Adds the blocks behind those that `wire` has.
void FillLeased(std::span<const LeasedBlock> blocks, v1::LeasedBlocks* wire);
void FillOnboarded(const Onboarded& onboarded, v1::OnboardedSequence* wire);
void FillTaken(const TakenTicket& taken, v1::TakeTicketResponse* wire);
void FillReserved(const ReservedBlock& block, v1::ReservedBlock* wire);

}  // namespace kvtier

#endif  // KVTIER_AGENT_WORKER_WIRE_H_
