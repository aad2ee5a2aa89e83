#include "agent/onboard.h"

#include <algorithm>
#include <span>
#include <utility>

#include "agent/limits.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// A run may alternate between this node and others; after this many questions to
// the coordinator the rest is a miss.
constexpr int kMaxLocateRounds = 4;

}  // namespace

Task<absl::StatusOr<Onboarded>> Onboarder::Onboard(OnboardRequest request) {
  if (request.target == Tier::kGpu &&
      (flows_.gpu == nullptr || !flows_.gpu->Serves(request.run.domain, request.run.block_bytes))) {
    co_return absl::InvalidArgumentError("target: no GPU pool fits this space");
  }
  request.deadline = std::min(request.deadline, executor_->Now() + kMaxRequestTimeout);
  std::vector<Wanted> wanted = co_await Gather(request, Urgency::kForeground);
  wanted.resize(co_await AwaitLeading(&wanted, request.deadline));
  if (request.target == Tier::kGpu) {
    for (Wanted& block : wanted) {
      if (block.pin.tier() == Tier::kHost) block.load = flows_.gpu->Start(std::move(block.pin));
    }
    flows_.gpu->Flush();
    wanted.resize(co_await AwaitLeading(&wanted, request.deadline));
  }
  co_return GrantLeases(request, std::move(wanted));
}

Task<size_t> Onboarder::Prefetch(BlockRun run, bool local_only) {
  const OnboardRequest request{.run = std::move(run),
                               .deadline = executor_->Now() + kPrefetchTimeout,
                               .local_only = local_only};
  const std::vector<Wanted> wanted = co_await Gather(request, Urgency::kPrefetch);
  co_return wanted.size();
}

// What of the run is here or can be brought here, from its start, each block
// pinned or on its way: pinned first, so that the loads do not evict it.
Task<std::vector<Onboarder::Wanted>> Onboarder::Gather(const OnboardRequest& request,
                                                       Urgency urgency) {
  const std::vector<BlockKey>& keys = request.run.keys;
  std::vector<Wanted> wanted;
  for (int round = 0; wanted.size() < keys.size(); ++round) {
    while (wanted.size() < keys.size()) {
      std::optional<Wanted> local = WantLocal(keys[wanted.size()], request, urgency);
      if (!local.has_value()) break;
      wanted.push_back(*std::move(local));
    }
    if (wanted.size() == keys.size() || request.local_only || round == kMaxLocateRounds) break;
    std::vector<SharedLoad> loads =
        co_await flows_.fetcher->Start(request.run, wanted.size(), request.deadline);
    if (loads.empty()) {
      // Another asker may have brought the block while we asked.
      std::optional<Wanted> local = WantLocal(keys[wanted.size()], request, urgency);
      if (!local.has_value()) break;
      wanted.push_back(*std::move(local));
    }
    for (SharedLoad& load : loads) wanted.push_back({.load = std::move(load)});
  }
  stats_->disk_misses += keys.size() - wanted.size();
  co_return wanted;
}

std::optional<Onboarder::Wanted> Onboarder::WantLocal(const BlockKey& key,
                                                      const OnboardRequest& request,
                                                      Urgency urgency) {
  if (request.target == Tier::kGpu) {
    if (std::optional<Pin> pin = index_->PinIn(Tier::kGpu, key)) {
      return Wanted{.pin = *std::move(pin), .from = Tier::kGpu};
    }
  }
  if (std::optional<Pin> pin = index_->PinIn(Tier::kHost, key)) {
    return Wanted{.pin = *std::move(pin), .from = Tier::kHost};
  }
  ++stats_->host.misses;
  if (SharedLoad load = flows_.host_loads->Find(key)) {
    if (load->from == Tier::kDisk && urgency == Urgency::kForeground) flows_.disk->Hasten(key);
    return Wanted{.load = load, .from = load->from};
  }
  if (flows_.disk != nullptr && index_->In(Tier::kDisk, key)) {
    SharedLoad load = flows_.disk->Start(key, request.run.domain, urgency);
    if (load != nullptr) return Wanted{.load = std::move(load), .from = Tier::kDisk};
  }
  return std::nullopt;
}

// Waits for each block in order; returns the length of the leading run that became
// ready, whose blocks are pinned.
Task<size_t> Onboarder::AwaitLeading(std::vector<Wanted>* wanted, absl::Time deadline) {
  size_t ready = 0;
  for (Wanted& block : *wanted) {
    if (!block.pin) {
      if (block.load == nullptr) break;
      const bool done = co_await waits_->Until(&block.load->done, deadline);
      if (!done) {
        stats_->deadline_misses += wanted->size() - ready;
        break;
      }
      if (!block.load->status.ok()) break;
      std::optional<Pin> pin = index_->PinIn(block.load->pin.tier(), block.load->pin.key());
      block.pin = *std::move(pin);
      block.load = nullptr;
    }
    ++ready;
  }
  co_return ready;
}

absl::StatusOr<Onboarded> Onboarder::GrantLeases(const OnboardRequest& request,
                                                 std::vector<Wanted> ready) {
  if (!sessions_->IsOpen(request.run.session)) {
    return absl::FailedPreconditionError("session: it ended while its request ran");
  }
  const absl::Time now = executor_->Now();
  Onboarded onboarded{.lease_deadline = now + kLeaseDuration};
  for (size_t i = 0; i < ready.size(); ++i) {
    const BlockIndex::Entry& entry = *index_->Find(request.run.keys[i]);
    LeasedBlock block{
        .offset = request.target == Tier::kGpu ? entry.gpu.offset() : entry.host.offset().value,
        .length = entry.meta.length,
        .from = ready[i].from};
    GpuHold hold;
    if (request.target == Tier::kGpu) {
      if (!flows_.gpu_pool->Stays(entry.gpu.ref().index)) break;
      hold = flows_.gpu_workers->Hold(request.run.session, entry.gpu.ref());
    }
    absl::StatusOr<LeaseId> lease =
        leases_->Grant(request.run.session, std::move(ready[i].pin),
                       onboarded.lease_deadline + kLeaseGrace, std::move(hold));
    if (!lease.ok()) break;
    block.lease = *lease;
    TierStats& served = request.target == Tier::kGpu ? stats_->gpu : stats_->host;
    if (block.from == request.target) ++served.hits;
    served.bytes_out += block.length;
    if (block.from == Tier::kHost || block.from == Tier::kGpu) {
      index_->CountHit(request.run.keys[i]);
    }
    onboarded.blocks.push_back(block);
  }
  const auto leased = std::span(request.run.keys).first(onboarded.blocks.size());
  index_->Touch(leased);
  if (flows_.offloader != nullptr) flows_.offloader->Used(leased);
  return onboarded;
}

}  // namespace kvtier
