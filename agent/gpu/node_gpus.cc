#include "agent/gpu/node_gpus.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/gpu/gpu_parts.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/log.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

// Returns the NUMA nodes of the devices, each once; of a device that has none, none.
std::vector<int> NumaNodesOf(const std::vector<Device*>& devices) {
  std::vector<int> nodes;
  for (const Device* const device : devices) {
    const std::optional<int> node = device->numa_node();
    if (node.has_value() && std::ranges::find(nodes, *node) == nodes.end()) nodes.push_back(*node);
  }
  return nodes;
}

// Places the tenant's host memory on the NUMA nodes, where there are some.
void Place(const NodeGpus::Source& source, const std::vector<int>& nodes, DomainId tenant) {
  if (source.binder == nullptr || nodes.empty()) return;
  const absl::Status bound = source.binder->Bind(source.host->arena(tenant).bytes(), nodes);
  if (bound.ok()) return;
  Log(LogLevel::kWarning,
      absl::StrCat("host memory cannot be bound to the GPUs' NUMA nodes, so copies to ",
                   "and from GPUs may be slower: ", bound.message()));
}

}  // namespace

absl::StatusOr<std::vector<GpuTier::Memory>> NodeGpus::TakeMemory(const Source& source,
                                                                  const GpuTier::Options& options) {
  std::vector<GpuTier::Memory> memory;
  if (options.bytes == 0 || source.devices.empty()) return memory;
  const std::vector<int> nodes = NumaNodesOf(source.devices);
  for (const DomainId tenant : source.tenants) Place(source, nodes, tenant);
  std::vector<GpuTier::Options> pools(source.tenants.size(), options);
  if (pools.size() > 1) {
    KVT_ASSIGN_OR_RETURN(
        const std::vector<uint64_t> parts,
        FirstGpuParts(options.bytes, SlotBytes(options.block_bytes), pools.size()));
    for (size_t i = 0; i < pools.size(); ++i) {
      pools[i].bytes = parts[i];
      pools[i].max_bytes = options.bytes;
      pools[i].handle_bytes = GpuPartUnit(options.bytes);
    }
  }
  for (Device* const device : source.devices) {
    for (size_t i = 0; i < pools.size(); ++i) {
      pools[i].domain = source.tenants[i];
      // Blocks that leave a pool, or come into it, are of its own domain.
      const std::span<std::byte> arena = source.host->arena(pools[i].domain).bytes();
      KVT_ASSIGN_OR_RETURN(
          GpuTier::Memory of_one,
          GpuTier::TakeMemory(device, source.executor, source.lanes, pools[i], arena));
      memory.push_back(std::move(of_one));
    }
  }
  return memory;
}

NodeGpus::NodeGpus(std::vector<GpuTier::Memory> memory, const GpuTier::Node& node)
    : executor_(node.executor) {
  for (GpuTier::Memory& of_one : memory) {
    if (std::ranges::find(tenants_, of_one.domain) == tenants_.end()) {
      tenants_.push_back(of_one.domain);
    }
    tiers_.push_back(std::make_unique<GpuTier>(std::move(of_one), node));
  }
}

GpuTier* NodeGpus::Of(SessionId session, DomainId domain) const {
  const auto chosen = chosen_.find(session);
  if (chosen != chosen_.end()) return chosen->second;
  for (const auto& tier : tiers_) {
    if (tier->domain() == domain) return tier.get();
  }
  return nullptr;
}

GpuTier* NodeGpus::For(const BlockRun& run) const {
  // A process that maps a pool can write all of it, and a member of a share group may be a reader.
  if (run.member.has_value()) return nullptr;
  GpuTier* const tier = Of(run.session, run.domain);
  return tier != nullptr && tier->Serves(run.domain, run.lengths) ? tier : nullptr;
}

GpuTier* NodeGpus::With(const BlockKey& key) const {
  for (const auto& tier : tiers_) {
    if (tier->blocks().Contains(key)) return tier.get();
  }
  return nullptr;
}

std::string NodeGpus::UuidsText() const {
  const auto name = [](std::string* out, const auto& tier) {
    out->append(tier->device().uuid().ToString());
  };
  return absl::StrJoin(tiers_, ", ", name);
}

absl::StatusOr<GpuTier*> NodeGpus::Named(const std::string& uuid) const {
  if (tiers_.empty()) {
    return absl::FailedPreconditionError(
        "this node has no GPU pool; start the agent with --gpu_bytes");
  }
  if (tenants_.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the GPU pools are divided between ", tenants_.size(),
                     " tenants by their shares; change a share: kvtier tenants set NAME ",
                     "--gpu_guaranteed BYTES"));
  }
  if (uuid.empty() && tiers_.size() == 1) return tiers_.front().get();
  if (uuid.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is empty; must be one of this node's GPUs: ", UuidsText()));
  }
  for (const auto& tier : tiers_) {
    if (tier->device().uuid().ToString() == uuid) return tier.get();
  }
  return absl::NotFoundError(
      absl::StrCat("device: ", uuid, "; must be one of this node's GPUs: ", UuidsText()));
}

absl::Status NodeGpus::Choose(SessionId session, DomainId domain, const DeviceUuid& uuid) {
  for (const auto& tier : tiers_) {
    if (tier->domain() != domain || tier->device().uuid() != uuid) continue;
    const GpuTier* const now = WithSteps(session);
    if (now != nullptr && now != tier.get()) {
      return absl::FailedPreconditionError(absl::StrCat("device_uuid: ", uuid.ToString(),
                                                        "; the session works already on ",
                                                        now->device().uuid().ToString()));
    }
    chosen_[session] = tier.get();
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("device_uuid: ", uuid.ToString(),
                                          "; this GPU has no pool for this tenant on this node"));
}

void NodeGpus::Drop(const BlockKey& key) {
  for (const auto& tier : tiers_) tier->Drop(key);
}

Task<uint64_t> NodeGpus::EvictPool(GpuTier* tier, uint64_t limit) {
  uint64_t evicted = 0;
  while (evicted < limit) {
    const uint64_t part = std::min<uint64_t>(kEvictedPerTurn, limit - evicted);
    const uint64_t dropped = tier->EvictSome(part);
    evicted += dropped;
    if (dropped < part) break;
    co_await SleepUntil(executor_, executor_->Now());
  }
  co_return evicted;
}

Task<uint64_t> NodeGpus::EvictDomain(DomainId domain) {
  uint64_t evicted = 0;
  for (const auto& tier : tiers_) {
    if (tier->domain() == domain) evicted += co_await EvictPool(tier.get(), UINT64_MAX);
  }
  co_return evicted;
}

Task<uint64_t> NodeGpus::EvictAll() {
  uint64_t evicted = 0;
  for (const auto& tier : tiers_) {
    evicted += co_await EvictPool(tier.get(), tier->blocks().size());
  }
  co_return evicted;
}

size_t NodeGpus::BlocksNotInHost(DomainId domain) const {
  size_t blocks = 0;
  for (const auto& tier : tiers_) {
    if (tier->domain() == domain) blocks += tier->blocks().blocks_not_in_host();
  }
  return blocks;
}

GpuTier* NodeGpus::WithSteps(SessionId session) const {
  for (const auto& tier : tiers_) {
    if (tier->workers().Find(session) != nullptr) return tier.get();
  }
  return nullptr;
}

absl::Status NodeGpus::CheckStep(SessionId session, uint64_t step) const {
  GpuTier* const tier = WithSteps(session);
  if (tier != nullptr) return tier->CheckStep(session, step);
  return absl::InvalidArgumentError(
      absl::StrCat("step: ", step, "; must be 0 from a session without a signal page"));
}

Task<bool> NodeGpus::AwaitStep(SessionId session, uint64_t step, absl::Time deadline) const {
  GpuTier* const tier = WithSteps(session);
  if (tier == nullptr) co_return false;
  co_return co_await tier->AwaitStep(session, step, deadline);
}

BegunSteps NodeGpus::StepsOf(SessionId session) {
  GpuTier* const tier = WithSteps(session);
  return tier == nullptr ? BegunSteps() : tier->workers().StepsOf(session);
}

size_t NodeGpus::Close(SessionId session) {
  size_t granted = 0;
  for (const auto& tier : tiers_) granted += tier->Close(session);
  return granted;
}

void NodeGpus::WritesOver(SessionId session) {
  for (const auto& tier : tiers_) tier->WritesOver(session);
  chosen_.erase(session);
}

void NodeGpus::ProcessGone(SessionId session) {
  for (const auto& tier : tiers_) tier->ProcessGone(session);
}

void NodeGpus::ObserveSteps() {
  for (const auto& tier : tiers_) tier->workers().Sweep();
}

void NodeGpus::Pump() {
  for (const auto& tier : tiers_) tier->Pump();
}

void NodeGpus::EndWaits() {
  for (const auto& tier : tiers_) tier->EndWaits();
}

void NodeGpus::Stop() {
  for (const auto& tier : tiers_) tier->Stop();
}

uint64_t NodeGpus::capacity_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) bytes += tier->pool().capacity_bytes();
  return bytes;
}

uint64_t NodeGpus::used_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) bytes += tier->pool().used_bytes();
  return bytes;
}

uint64_t NodeGpus::CapacityOf(DomainId domain) const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) {
    if (tier->domain() == domain) bytes += tier->pool().capacity_bytes();
  }
  return bytes;
}

uint64_t NodeGpus::UsedBy(DomainId domain) const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) {
    if (tier->domain() == domain) bytes += tier->pool().used_bytes();
  }
  return bytes;
}

uint64_t NodeGpus::pinned_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tier : tiers_) bytes += tier->blocks().pinned_bytes();
  return bytes;
}

void NodeGpus::Audit() const {
  for (const auto& tier : tiers_) tier->Audit();
}

}  // namespace kvtier
