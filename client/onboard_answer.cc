#include "client/onboard_answer.h"

#include <limits>
#include <optional>

#include "client/agent_link.h"

namespace kvtier {
namespace {

// Between a reader's last load and its look at the clock. The agent leaves a slot
// alone for much longer after the deadline; this is for the reader's own reordering.
constexpr absl::Duration kLeaseMargin = absl::Milliseconds(1);

absl::Time LeaseDeadline(uint64_t deadline_ns) {
  if (deadline_ns > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InfinitePast();
  }
  return absl::FromUnixNanos(static_cast<int64_t>(deadline_ns)) - kLeaseMargin;
}

BlockSource SourceFrom(int from) {
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

// Each column has an entry for each block.
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
    all[i] = ReadOne(response.sequences(static_cast<int>(i)), asked[i], reached, &unusable);
    if (all[i].empty()) continue;
    all[i].link_ = link;
    all[i].connection_ = connection_;
    all[i].keep_ = memory_.keep();
    all[i].deadline_ = LeaseDeadline(response.lease_deadline_ns());
  }
  link->Release(connection_.get(), ReleaseQueue::Kind::kLease, unusable);
  return all;
}

void OnboardAnswer::Count(const OnboardedBlocks& onboarded, size_t asked, ClientStats* stats) {
  for (const OnboardedBlocks::Block& block : onboarded.blocks_) {
    stats->onboarded_bytes += block.length;
    ++stats->onboarded_from[static_cast<size_t>(block.source)];
  }
  const size_t missed = asked - onboarded.size();
  stats->onboarded_blocks += onboarded.size();
  stats->missed_blocks += missed;
  stats->missed_because[static_cast<size_t>(onboarded.missed_)] += missed;
}

OnboardedBlocks OnboardAnswer::ReadOne(const v1::OnboardedSequence& wire,
                                       const AskedSequence& asked, bool usable,
                                       std::vector<uint64_t>* unusable) const {
  OnboardedBlocks onboarded;
  onboarded.missed_ = MissReasonFrom(wire.missed());
  const v1::LeasedBlocks& blocks = wire.blocks();
  usable = usable && HasWholeColumns(blocks);
  if (usable) {
    onboarded.blocks_.reserve(static_cast<size_t>(blocks.lease_ids_size()));
    onboarded.lease_ids_.reserve(static_cast<size_t>(blocks.lease_ids_size()));
  }
  size_t next = 0;  // Key of the next block, or a later one.
  for (int i = 0; i < blocks.lease_ids_size(); ++i) {
    // The agent is trusted to be right, not to be the program we think it is: a block
    // that is not where and what it must be ends the sequence.
    usable = usable && asked.lengths.Allow(blocks.lengths(i)) && blocks.indices(i) < asked.keys &&
             (asked.is_set ? blocks.indices(i) >= next : blocks.indices(i) == next);
    const auto bytes = usable ? memory_.Read(blocks.offsets(i), blocks.lengths(i)) : std::nullopt;
    usable = usable && bytes;
    if (!usable) {
      unusable->push_back(blocks.lease_ids(i));
      continue;
    }
    next = blocks.indices(i) + size_t{1};
    onboarded.blocks_.push_back({.bytes = *bytes,
                                 .length = blocks.lengths(i),
                                 .offset = blocks.offsets(i),
                                 .source = SourceFrom(blocks.from(i)),
                                 .sum = {.hi = blocks.sums(2 * i), .lo = blocks.sums(2 * i + 1)},
                                 .key_index = blocks.indices(i)});
    onboarded.lease_ids_.push_back(blocks.lease_ids(i));
  }
  return onboarded;
}

}  // namespace kvtier
