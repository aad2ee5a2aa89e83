// These functions turn flows' results for workers into kvtier.v1 messages, and read fields of
// requests.
#ifndef KVTIER_AGENT_SERVICES_WORKER_WIRE_H_
#define KVTIER_AGENT_SERVICES_WORKER_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/block_run.h"
#include "agent/flows/keep_prefix.h"
#include "agent/flows/match.h"
#include "agent/flows/onboard.h"
#include "agent/flows/onboard_parts.h"
#include "agent/flows/put.h"
#include "agent/flows/tickets.h"
#include "core/tier.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

// Returns a time of the node's monotonic clock in nanoseconds.
uint64_t MonotonicNanos(absl::Time time);

// Errors of these two: kInvalidArgument, not 16 bytes.
absl::StatusOr<SessionToken> SessionTokenFrom(const std::string& wire);
absl::StatusOr<TicketId> TicketFrom(const std::string& wire);

// Returns the target of a call, a tier that workers can map. Errors: kInvalidArgument, naming it.
absl::StatusOr<Tier> TargetFrom(v1::Tier wire);

// Takes the lengths of the blocks that are to be reserved. Errors: kInvalidArgument, naming field
// and value.
absl::Status TakeLengths(const v1::Sequence& sequence, BlockRun* run);

// The Fill functions fill an empty message.
void FillMatched(const Matched& matched, v1::MatchedSequence* wire);
void FillOnboarded(const Onboarded& onboarded, v1::OnboardedSequence* wire);
void FillPart(const OnboardPart& part, v1::OnboardPart* wire);
void FillKept(const Kept& kept, v1::KeepResponse* wire);
void FillTaken(const TakenTicket& taken, v1::TakeTicketResponse* wire);
void FillReserved(const ReservedBlock& block, v1::ReservedBlock* wire);

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_WORKER_WIRE_H_
