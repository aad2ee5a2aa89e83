#include "agent/services/worker_wire.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

v1::ReservedBlock::State ToWire(ReservedBlock::State state) {
  switch (state) {
    case ReservedBlock::State::kReserved:
      return v1::ReservedBlock::RESERVED;
    case ReservedBlock::State::kPresent:
      return v1::ReservedBlock::PRESENT;
    case ReservedBlock::State::kNoRoom:
      return v1::ReservedBlock::NO_ROOM;
    case ReservedBlock::State::kPending:
      return v1::ReservedBlock::PENDING;
  }
  return v1::ReservedBlock::STATE_UNSPECIFIED;
}

v1::MissReason ToWire(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return v1::MISS_REASON_NONE;
    case MissReason::kAbsent:
      return v1::MISS_REASON_ABSENT;
    case MissReason::kDeadline:
      return v1::MISS_REASON_DEADLINE;
    case MissReason::kNoRoom:
      return v1::MISS_REASON_NO_ROOM;
    case MissReason::kDamaged:
      return v1::MISS_REASON_DAMAGED;
    case MissReason::kEvicted:
      return v1::MISS_REASON_EVICTED;
    case MissReason::kBusy:
      return v1::MISS_REASON_BUSY;
    case MissReason::kUnreachable:
    case MissReason::kSpaceRefused:
      break;  // Clients alone give these reasons.
  }
  return v1::MISS_REASON_ABSENT;
}

v1::KeepLimit ToWire(KeepLimit limit) {
  switch (limit) {
    case KeepLimit::kNone:
      return v1::KEEP_LIMIT_NONE;
    case KeepLimit::kTenantBytes:
      return v1::KEEP_LIMIT_TENANT_BYTES;
    case KeepLimit::kTenantBlocks:
      return v1::KEEP_LIMIT_TENANT_BLOCKS;
    case KeepLimit::kTenantPrefixes:
      return v1::KEEP_LIMIT_TENANT_PREFIXES;
    case KeepLimit::kNodeBlocks:
      return v1::KEEP_LIMIT_NODE_BLOCKS;
    case KeepLimit::kNodePrefixes:
      return v1::KEEP_LIMIT_NODE_PREFIXES;
  }
  return v1::KEEP_LIMIT_NONE;
}

void FillLeased(std::span<const LeasedBlock> blocks, v1::LeasedBlocks* wire) {
  const auto count = static_cast<int>(blocks.size());
  wire->mutable_lease_ids()->Reserve(count);
  wire->mutable_offsets()->Reserve(count);
  wire->mutable_lengths()->Reserve(count);
  wire->mutable_from()->Reserve(count);
  wire->mutable_sums()->Reserve(2 * count);
  wire->mutable_indices()->Reserve(count);
  for (const LeasedBlock& block : blocks) {
    wire->add_lease_ids(static_cast<uint64_t>(block.lease));
    wire->add_offsets(block.offset);
    wire->add_lengths(block.length);
    wire->add_from(block.from ? convert::ToWire(*block.from) : v1::TIER_UNSPECIFIED);
    wire->add_sums(block.sum.hi);
    wire->add_sums(block.sum.lo);
    wire->add_indices(static_cast<uint32_t>(block.index));
  }
}

}  // namespace

uint64_t MonotonicNanos(absl::Time time) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(time - absl::UnixEpoch()));
}

void FillMatched(const Matched& matched, v1::MatchedSequence* wire) {
  wire->set_local_blocks(static_cast<uint32_t>(matched.local_blocks));
  wire->set_total_blocks(static_cast<uint32_t>(matched.total_blocks));
  wire->mutable_tiers()->Reserve(static_cast<int>(matched.tiers.size()));
  for (const std::optional<Tier>& tier : matched.tiers) {
    wire->add_tiers(tier ? convert::ToWire(*tier) : v1::TIER_UNSPECIFIED);
  }
}

void FillOnboarded(const Onboarded& onboarded, v1::OnboardedSequence* wire) {
  FillLeased(onboarded.blocks, wire->mutable_blocks());
  wire->set_missed(ToWire(onboarded.missed));
}

void FillPart(const OnboardPart& part, v1::OnboardPart* wire) {
  wire->set_lease_deadline_ns(MonotonicNanos(part.lease_deadline));
  for (const OnboardPart::Sequence& sequence : part.sequences) {
    v1::OnboardPart::Sequence* const filled = wire->add_sequences();
    filled->set_index(static_cast<uint32_t>(sequence.index));
    FillLeased(sequence.blocks, filled->mutable_blocks());
  }
  for (const MissReason missed : part.missed) wire->add_missed(ToWire(missed));
}

absl::StatusOr<SessionToken> SessionTokenFrom(const std::string& wire) {
  if (wire.size() != convert::kSessionTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "session_token: ", wire.size(), " bytes; must be ", convert::kSessionTokenBytes));
  }
  SessionToken token;
  std::ranges::copy(wire, token.begin());
  return token;
}

absl::StatusOr<TicketId> TicketFrom(const std::string& wire) {
  TicketId id{};
  if (wire.size() != id.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ticket: ", wire.size(), " bytes; must be ", id.size()));
  }
  std::copy(wire.begin(), wire.end(), id.begin());
  return id;
}

absl::StatusOr<Tier> TargetFrom(v1::Tier wire) {
  KVT_ASSIGN_OR_RETURN(const Tier tier, convert::TierFrom(wire, "target"));
  if (tier == Tier::kDisk) {
    return absl::InvalidArgumentError(
        "target: TIER_DISK cannot be mapped by workers; must be TIER_HOST or TIER_GPU");
  }
  return tier;
}

absl::Status TakeLengths(const v1::Sequence& sequence, BlockRun* run) {
  KVT_RETURN_IF_ERROR(convert::CheckLengths(sequence, run->lengths));
  run->key_lengths.assign(sequence.lengths().begin(), sequence.lengths().end());
  return absl::OkStatus();
}

void FillTaken(const TakenTicket& taken, v1::TakeTicketResponse* wire) {
  for (const TakenTicket::Sequence& sequence : taken.sequences) {
    v1::TicketedSequence* const ticketed = wire->add_sequences();
    for (const size_t index : sequence.indices) {
      ticketed->add_indices(static_cast<uint32_t>(index));
    }
    ticketed->set_missed(ToWire(sequence.missed));
  }
  if (taken.id == TicketId{}) return;
  wire->set_ticket(taken.id.data(), taken.id.size());
  wire->set_deadline_ns(MonotonicNanos(taken.deadline));
}

void FillKept(const Kept& kept, v1::KeepResponse* wire) {
  wire->set_kept_id(static_cast<uint64_t>(kept.id));
  for (const Kept::Sequence& sequence : kept.sequences) {
    v1::KeptSequence* const of = wire->add_sequences();
    for (const size_t index : sequence.indices) of->add_indices(static_cast<uint32_t>(index));
    of->set_missed(ToWire(sequence.missed));
  }
  wire->set_limit(ToWire(kept.limit));
}

void FillReserved(const ReservedBlock& block, v1::ReservedBlock* wire) {
  wire->set_state(ToWire(block.state));
  wire->set_reservation_id(static_cast<uint64_t>(block.id));
  wire->set_offset(block.offset);
}

}  // namespace kvtier
