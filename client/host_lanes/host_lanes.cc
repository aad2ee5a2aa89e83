#include "client/host_lanes/host_lanes.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/background_thread.h"
#include "client/host_lanes/host_offload.h"
#include "client/host_lanes/host_onboard.h"
#include "client/key_sequence.h"
#include "core/clock.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<HostLanes>> HostLanes::Open(Client* client, SpaceHandle space,
                                                           const KvTensors& tensors,
                                                           const HostLanesOptions& options) {
  if (options.threads == 0 || options.threads > kMaxHostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, "; must be 1 to ", kMaxHostThreads));
  }
  KVT_ASSIGN_OR_RETURN(const SpaceSpec spec, client->SpecOf(space));
  KVT_ASSIGN_OR_RETURN(HostTensors checked, HostTensors::Of(tensors, spec));
  auto lanes = absl::WrapUnique(new HostLanes(client, space, std::move(checked)));
  for (size_t i = 0; i < options.threads; ++i) {
    lanes->threads_.emplace_back([lanes = lanes.get()] { lanes->Run(); });
  }
  return lanes;
}

HostLanes::HostLanes(Client* client, SpaceHandle space, HostTensors tensors)
    : space_(space),
      tensors_(std::move(tensors)),
      parts_{.client = client,
             .tensors = &tensors_,
             .queue = std::make_shared<HostQueue>(tensors_.slots())} {}

void HostLanes::Close() {
  if (InForkedChild()) return;
  parts_.queue->Close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  parts_.queue->CancelAll();
}

absl::StatusOr<std::shared_ptr<HostJob>> HostLanes::Offload(std::span<const EngineKey> keys,
                                                            const std::optional<EngineKey>& parent,
                                                            std::span<const uint32_t> slots,
                                                            const ReuseHint& hint) {
  KVT_RETURN_IF_ERROR(CheckBlocks(keys, slots));
  const KeySequence run = {.space = space_, .keys = keys, .parent = parent, .hint = hint};
  return Start(HostDirection::kOffload, slots, [&](const std::shared_ptr<HostJob>& job) {
    return parts_.client->SubmitReserve({&run, 1}, {},
                                        [parts = parts_, job](ReservedBlocks blocks) {
                                          HostOffload::Begin(parts, job, std::move(blocks));
                                        });
  });
}

absl::StatusOr<std::shared_ptr<HostJob>> HostLanes::Onboard(
    std::span<const EngineKey> keys, std::span<const uint32_t> slots,
    const std::optional<absl::Duration>& timeout, const ReuseHint& hint) {
  KVT_RETURN_IF_ERROR(CheckBlocks(keys, slots));
  KVT_RETURN_IF_ERROR(CheckOnce(slots));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, parts_.client->TimeoutOf(timeout));
  const absl::Time deadline = MonotonicClock().Now() + allowed;
  return Start(HostDirection::kOnboard, slots, [&](const std::shared_ptr<HostJob>& job) {
    const KeySequence run = {.space = space_, .keys = keys, .hint = hint};
    return std::make_shared<HostOnboard>(parts_, job, run, deadline)->Begin();
  });
}

absl::StatusOr<bool> HostLanes::AwaitCopied(std::span<const uint32_t> slots,
                                            absl::Duration timeout) {
  KVT_RETURN_IF_ERROR(CheckSlots(slots));
  return InForkedChild() || parts_.queue->AwaitCopied(slots, timeout);
}

HostCopyStats HostLanes::StatsOf(HostDirection direction) const {
  return InForkedChild() ? HostCopyStats() : parts_.queue->StatsOf(direction);
}

template <typename Submit>
absl::StatusOr<std::shared_ptr<HostJob>> HostLanes::Start(HostDirection direction,
                                                          std::span<const uint32_t> slots,
                                                          Submit submit) {
  auto job =
      std::make_shared<HostJob>(direction, std::vector<uint32_t>(slots.begin(), slots.end()));
  if (InForkedChild()) return job;
  KVT_RETURN_IF_ERROR(parts_.queue->Admit(job));
  if (const absl::Status status = submit(job); !status.ok()) {
    parts_.queue->End(job, status, std::vector<bool>(slots.size()), 0);
    return status;
  }
  return job;
}

absl::Status HostLanes::CheckSlots(std::span<const uint32_t> slots) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < tensors_.slots()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("blocks[", i, "] is ", slots[i], "; must be below ", tensors_.slots()));
  }
  return absl::OkStatus();
}

absl::Status HostLanes::CheckBlocks(std::span<const EngineKey> keys,
                                    std::span<const uint32_t> slots) const {
  if (keys.size() != slots.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", keys.size(), " keys for ",
                                                   slots.size(), " blocks; must be one for each"));
  }
  return CheckSlots(slots);
}

absl::Status HostLanes::CheckOnce(std::span<const uint32_t> slots) const {
  std::vector<bool> seen(tensors_.slots());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (seen[slots[i]]) {
      return absl::InvalidArgumentError(absl::StrCat("blocks[", i, "] is ", slots[i],
                                                     " for the second time; must be named once"));
    }
    seen[slots[i]] = true;
  }
  return absl::OkStatus();
}

void HostLanes::Run() {
  BecomeBackgroundThread("kvtier-lanes");
  const MonotonicClock clock;
  HostScratch scratch;
  while (std::unique_ptr<HostCopy> copy = parts_.queue->Take()) {
    const absl::Time began = clock.Now();
    if (const uint64_t bytes = copy->CopyNext(&scratch); bytes > 0) {
      parts_.queue->PutBack(std::move(copy), bytes, clock.Now() - began);
    } else {
      copy->Finish();
    }
  }
}

}  // namespace kvtier
