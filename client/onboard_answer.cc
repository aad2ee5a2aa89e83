#include "client/onboard_answer.h"

#include <limits>
#include <optional>
#include <utility>

#include "client/agent_link.h"

namespace kvtier {
namespace {

// Time by which a lease ends earlier for the reader than for the agent: loads of the reader may
// happen after its look at the clock. The agent reuses a slot only much later than the deadline.
constexpr absl::Duration kLeaseMargin = absl::Milliseconds(1);

absl::Time LeaseDeadline(uint64_t deadline_ns) {
  if (deadline_ns > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InfinitePast();
  }
  return absl::FromUnixNanos(static_cast<int64_t>(deadline_ns)) - kLeaseMargin;
}

BlockSource SourceFrom(v1::Tier from) {
  switch (from) {
    case v1::TIER_GPU:
      return BlockSource::kGpu;
    case v1::TIER_HOST:
      return BlockSource::kHost;
    case v1::TIER_DISK:
      return BlockSource::kDisk;
    default:
      return BlockSource::kPeer;
  }
}

// Returns whether each column has an entry for each block.
bool HasWholeColumns(const v1::LeasedBlocks& blocks) {
  const int count = blocks.lease_ids_size();
  return blocks.offsets_size() == count && blocks.lengths_size() == count &&
         blocks.from_size() == count && blocks.sums_size() == 2 * count &&
         blocks.indices_size() == count;
}

}  // namespace

MissReason MissReasonFrom(v1::MissReason reason) {
  switch (reason) {
    case v1::MISS_REASON_NONE:
      return MissReason::kNone;
    case v1::MISS_REASON_DEADLINE:
      return MissReason::kDeadline;
    case v1::MISS_REASON_NO_ROOM:
      return MissReason::kNoRoom;
    case v1::MISS_REASON_DAMAGED:
      return MissReason::kDamaged;
    case v1::MISS_REASON_EVICTED:
      return MissReason::kEvicted;
    case v1::MISS_REASON_BUSY:
      return MissReason::kBusy;
    default:
      return MissReason::kAbsent;
  }
}

MissReason MissReasonOf(CallOutcome outcome) {
  switch (outcome) {
    case CallOutcome::kLate:
      return MissReason::kDeadline;
    case CallOutcome::kSpaceRefused:
      return MissReason::kSpaceRefused;
    case CallOutcome::kAnswered:
    case CallOutcome::kUnreachable:
      break;
  }
  return MissReason::kUnreachable;
}

std::vector<OnboardedBlocks> OnboardAnswer::Read(const std::shared_ptr<AgentLink>& link,
                                                 const std::vector<AskedSequence>& asked,
                                                 const v1::OnboardResponse& response,
                                                 CallOutcome outcome, absl::Duration timeout) {
  std::vector<OnboardedBlocks> all(asked.size());
  if (outcome != CallOutcome::kAnswered) {
    for (OnboardedBlocks& onboarded : all) onboarded.missed_ = MissReasonOf(outcome);
    return all;
  }
  const bool reached = memory_.Follow(response.gpu_version(), timeout);
  std::vector<uint64_t> unusable;
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) == response.sequences_size()) break;
    const v1::OnboardedSequence& sequence = response.sequences(static_cast<int>(i));
    ArrivedKeys arrived;
    all[i] = ReadOne(sequence.blocks(), asked[i], reached, &arrived, &unusable);
    all[i].missed_ = MissReasonFrom(sequence.missed());
    Own(link, response.lease_deadline_ns(), &all[i]);
  }
  link->Release(connection_.get(), ReleaseQueue::Kind::kLease, unusable);
  return all;
}

std::vector<OnboardedPart> OnboardAnswer::ReadPart(const std::shared_ptr<AgentLink>& link,
                                                   const std::vector<AskedSequence>& asked,
                                                   const v1::OnboardPart& part,
                                                   std::vector<ArrivedKeys>* arrived) const {
  std::vector<OnboardedPart> parts;
  std::vector<uint64_t> unusable;
  for (const v1::OnboardPart::Sequence& sequence : part.sequences()) {
    if (sequence.index() >= asked.size()) {
      for (const uint64_t id : sequence.blocks().lease_ids()) unusable.push_back(id);
      continue;
    }
    OnboardedPart read{.sequence = sequence.index()};
    read.blocks = ReadOne(sequence.blocks(), asked[read.sequence], /*usable=*/true,
                          &(*arrived)[read.sequence], &unusable);
    if (read.blocks.empty()) continue;
    read.blocks.missed_ = MissReason::kNone;
    Own(link, part.lease_deadline_ns(), &read.blocks);
    parts.push_back(std::move(read));
  }
  link->Release(connection_.get(), ReleaseQueue::Kind::kLease, unusable);
  return parts;
}

void OnboardAnswer::Own(const std::shared_ptr<AgentLink>& link, uint64_t deadline_ns,
                        OnboardedBlocks* onboarded) const {
  if (onboarded->empty()) return;
  onboarded->link_ = link;
  onboarded->connection_ = connection_;
  onboarded->keep_ = memory_.keep();
  onboarded->deadline_ = LeaseDeadline(deadline_ns);
}

void OnboardAnswer::CountBlocks(const OnboardedBlocks& onboarded, ClientStats* stats) {
  for (const OnboardedBlocks::Block& block : onboarded.blocks_) {
    stats->onboarded_bytes += block.length;
    ++stats->onboarded_from[static_cast<size_t>(block.source)];
  }
  stats->onboarded_blocks += onboarded.size();
}

void OnboardAnswer::CountMissed(size_t blocks, MissReason because, ClientStats* stats) {
  stats->missed_blocks += blocks;
  stats->missed_because[static_cast<size_t>(because)] += blocks;
}

bool ArrivedKeys::Note(const AskedSequence& asked, size_t index) {
  if (index >= asked.keys) return false;
  if (!asked.is_set) {
    if (index != next_) return false;
    ++next_;
    return true;
  }
  came_.resize(asked.keys);
  if (came_[index]) return false;
  came_[index] = true;
  return true;
}

OnboardedBlocks OnboardAnswer::ReadOne(const v1::LeasedBlocks& wire, const AskedSequence& asked,
                                       bool usable, ArrivedKeys* arrived,
                                       std::vector<uint64_t>* unusable) const {
  OnboardedBlocks onboarded;
  usable = usable && HasWholeColumns(wire);
  if (usable) {
    onboarded.blocks_.reserve(static_cast<size_t>(wire.lease_ids_size()));
    onboarded.lease_ids_.reserve(static_cast<size_t>(wire.lease_ids_size()));
  }
  for (int i = 0; i < wire.lease_ids_size(); ++i) {
    const auto bytes = usable ? memory_.Read(wire.offsets(i), wire.lengths(i)) : std::nullopt;
    // The answer may be of another version of the agent, so each block's place and length are
    // checked: one that cannot be right ends the sequence.
    usable = usable && bytes && asked.lengths.Allow(wire.lengths(i)) &&
             arrived->Note(asked, wire.indices(i));
    if (!usable) {
      unusable->push_back(wire.lease_ids(i));
      continue;
    }
    onboarded.blocks_.push_back({.bytes = *bytes,
                                 .length = wire.lengths(i),
                                 .offset = wire.offsets(i),
                                 .source = SourceFrom(wire.from(i)),
                                 .sum = {.hi = wire.sums(2 * i), .lo = wire.sums(2 * i + 1)},
                                 .key_index = wire.indices(i)});
    onboarded.lease_ids_.push_back(wire.lease_ids(i));
  }
  return onboarded;
}

}  // namespace kvtier
