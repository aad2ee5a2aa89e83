#include "client/onboard_call.h"

#include <limits>
#include <optional>
#include <vector>

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

// Why all is missing where the agent said nothing.
MissReason WithoutAnswer(CallOutcome outcome) {
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

}  // namespace

bool OnboardCall::Fill(const std::shared_ptr<Connection>& connection) {
  const bool to_gpu = target_ == OnboardTarget::kGpu;
  connection_ = connection;
  memory_ = to_gpu ? BlockMemory::GpuPool(connection->session())
                   : BlockMemory::Arena(connection->session()->arena_read());
  if (memory_.none()) return false;
  messages.request.set_target(to_gpu ? v1::TIER_GPU : v1::TIER_HOST);
  messages.request.set_timeout_ms(AgentTimeoutMs(messages.timeout));
  messages.request.set_local_only(local_only_);
  return FillSequences(*connection, sequences_, &messages.request, &asked_);
}

OnboardCall::Result OnboardCall::Finish(const std::shared_ptr<AgentLink>& link,
                                        CallOutcome outcome) {
  Result all(asked_.size());
  std::vector<uint64_t> unusable;
  const bool answered = outcome == CallOutcome::kAnswered;
  const bool reached =
      answered && memory_.Follow(messages.response.gpu_version(), messages.timeout);
  for (size_t i = 0; i < all.size(); ++i) {
    if (answered) all[i] = Read(link, i, reached, &unusable);
    if (!answered) all[i].missed_ = WithoutAnswer(outcome);
  }
  if (connection_ != nullptr) {
    link->Release(connection_.get(), ReleaseQueue::Kind::kLease, unusable);
  }
  link->Count([&](ClientStats* stats) {
    for (size_t i = 0; i < all.size(); ++i) CountOne(all[i], asked_[i].keys, stats);
  });
  return all;
}

void OnboardCall::CountOne(const OnboardedBlocks& onboarded, size_t asked, ClientStats* stats) {
  for (const OnboardedBlocks::Block& block : onboarded.blocks_) {
    stats->onboarded_bytes += block.length;
    ++stats->onboarded_from[static_cast<size_t>(block.source)];
  }
  const size_t missed = asked - onboarded.size();
  stats->onboarded_blocks += onboarded.size();
  stats->missed_blocks += missed;
  stats->missed_because[static_cast<size_t>(onboarded.missed_)] += missed;
}

OnboardedBlocks OnboardCall::Read(const std::shared_ptr<AgentLink>& link, size_t index,
                                  bool reached, std::vector<uint64_t>* unusable) {
  OnboardedBlocks onboarded;
  if (static_cast<int>(index) >= messages.response.sequences_size()) return onboarded;
  const v1::OnboardedSequence& wire = messages.response.sequences(static_cast<int>(index));
  const bool is_set = messages.request.sequences(static_cast<int>(index)).set();
  onboarded.missed_ = MissReasonFrom(wire.missed());
  bool usable = reached;
  size_t next = 0;  // Key of the next block, or a later one.
  for (const v1::LeasedBlock& block : wire.blocks()) {
    const auto bytes = memory_.Read(block.offset(), block.length());
    const bool in_place = is_set ? block.index() >= next : block.index() == next;
    // The agent is trusted to be right, not to be the program we think it is: a block
    // that is not where and what it must be ends the sequence.
    usable = usable && bytes && block.length() == asked_[index].block_bytes && in_place &&
             block.index() < asked_[index].keys;
    if (!usable) {
      unusable->push_back(block.lease_id());
      continue;
    }
    next = block.index() + 1;
    onboarded.blocks_.push_back({.bytes = *bytes,
                                 .length = block.length(),
                                 .offset = block.offset(),
                                 .source = SourceFrom(block.from()),
                                 .sum = {.hi = block.sum_hi(), .lo = block.sum_lo()},
                                 .key_index = block.index()});
    onboarded.lease_ids_.push_back(block.lease_id());
  }
  if (onboarded.blocks_.empty()) return onboarded;
  onboarded.link_ = link;
  onboarded.connection_ = connection_;
  onboarded.keep_ = memory_.keep();
  onboarded.deadline_ = LeaseDeadline(messages.response.lease_deadline_ns());
  return onboarded;
}

}  // namespace kvtier
