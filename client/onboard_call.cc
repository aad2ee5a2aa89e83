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

}  // namespace

bool OnboardCall::Fill(const std::shared_ptr<Connection>& connection) {
  const auto space = connection->FindSpace(static_cast<size_t>(space_));
  const bool to_gpu = target_ == OnboardTarget::kGpu;
  connection_ = connection;
  memory_ = to_gpu ? BlockMemory::GpuPool(connection->session())
                   : BlockMemory::Arena(connection->session()->arena_read());
  if (!space || space->id == 0 || memory_.none()) return false;
  block_bytes_ = space->block_bytes;
  FillPrefix(*connection, *space, keys_, &messages.request);
  messages.request.set_target(to_gpu ? v1::TIER_GPU : v1::TIER_HOST);
  messages.request.set_timeout_ms(AgentTimeoutMs(messages.timeout));
  messages.request.set_local_only(local_only_);
  return true;
}

OnboardedBlocks OnboardCall::Finish(const std::shared_ptr<AgentLink>& link, bool answered) {
  OnboardedBlocks onboarded = answered ? Read(link) : OnboardedBlocks();
  link->Count([&](ClientStats* stats) {
    stats->onboarded_blocks += onboarded.size();
    stats->missed_blocks += keys_.size() - onboarded.size();
  });
  return onboarded;
}

OnboardedBlocks OnboardCall::Read(const std::shared_ptr<AgentLink>& link) {
  OnboardedBlocks onboarded;
  std::vector<uint64_t> unusable;
  const bool reached = memory_.Follow(messages.response.gpu_version(), messages.timeout);
  for (const v1::LeasedBlock& block : messages.response.blocks()) {
    const auto bytes = memory_.Read(block.offset(), block.length());
    // The agent is trusted to be right, not to be the program we think it is: a block
    // that is not where and what it must be ends the run.
    if (!reached || !unusable.empty() || !bytes || block.length() != block_bytes_ ||
        onboarded.size() == keys_.size()) {
      unusable.push_back(block.lease_id());
      continue;
    }
    onboarded.blocks_.push_back(
        {.bytes = *bytes, .offset = block.offset(), .source = SourceFrom(block.from())});
    onboarded.lease_ids_.push_back(block.lease_id());
  }
  link->Release(connection_.get(), ReleaseQueue::Kind::kLease, unusable);
  if (onboarded.blocks_.empty()) return onboarded;
  onboarded.link_ = link;
  onboarded.connection_ = connection_;
  onboarded.keep_ = memory_.keep();
  onboarded.deadline_ = LeaseDeadline(messages.response.lease_deadline_ns());
  return onboarded;
}

}  // namespace kvtier
