#include "agent/gpu/gpu_tier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {

absl::StatusOr<GpuTier::Memory> GpuTier::TakeMemory(Device* device, Executor* executor,
                                                    Executor* lanes_executor,
                                                    const Options& options,
                                                    std::span<std::byte> arena) {
  KVT_RETURN_IF_ERROR(device->Pin(arena));
  Memory memory{.device = device, .domain = options.domain, .eviction = options.eviction};
  memory.lanes = std::make_unique<LaneRunner>(device, executor, lanes_executor);
  KVT_ASSIGN_OR_RETURN(memory.pool, GpuPool::Create(device, memory.lanes.get(),
                                                    {.bytes = options.bytes,
                                                     .slot_bytes = SlotBytes(options.block_bytes),
                                                     .max_bytes = options.max_bytes,
                                                     .handle_bytes = options.handle_bytes,
                                                     .host = {arena.data(), kPinChunkBytes}}));
  return memory;
}

GpuTier::GpuTier(Memory memory, const Node& node)
    : memory_(std::move(memory)),
      node_(node),
      blocks_({.pool = memory_.pool.get(),
               .domain = memory_.domain,
               .index = node.index,
               .changes = node.changes,
               .eviction = memory_.eviction,
               .clock = node.executor}),
      workers_(memory_.device, memory_.pool.get(), node.executor, node.scope),
      evictor_({.pool = memory_.pool.get(),
                .blocks = &blocks_,
                .words = workers_.words(),
                .stats = &node.stats->gpu}),
      copies_({.executor = node.executor,
               .byte_threads = node.byte_threads,
               .pool = memory_.pool.get(),
               .stats = &stats_,
               .tier_stats = &node.stats->gpu}),
      offloader_({.scope = node.scope,
                  .index = node.index,
                  .host_evictor = node.evictor,
                  .pool = memory_.pool.get(),
                  .domain = memory_.domain,
                  .device = memory_.device,
                  .blocks = &blocks_,
                  .evictor = &evictor_,
                  .copies = &copies_,
                  .stats = &stats_,
                  .host_stats = &node.stats->host}),
      loader_({.executor = node.executor,
               .scope = node.scope,
               .blocks = &blocks_,
               .evictor = &evictor_,
               .copies = &copies_,
               .offloader = &offloader_,
               .stats = &node.stats->gpu}),
      resizer_({.executor = node.executor,
                .scope = node.scope,
                .waits = node.waits,
                .evictor = &evictor_,
                .pool = memory_.pool.get(),
                .workers = &workers_}),
      grants_(&evictor_, memory_.pool.get(), &workers_),
      line_({.executor = node.executor,
             .scope = node.scope,
             .waits = node.waits,
             .evictor = &evictor_}) {}

bool GpuTier::Serves(DomainId domain, const BlockLengths& lengths) const {
  return domain == memory_.domain && !lengths.any &&
         SlotBytes(lengths.longest) == memory_.pool->slot_bytes();
}

absl::StatusOr<GpuTier::Reserved> GpuTier::Reserve(SessionId session) {
  Reserved reserved;
  KVT_ASSIGN_OR_RETURN(reserved.slot, evictor_.Reserve());
  reserved.writer = workers_.Hold(session, reserved.slot.ref());
  return reserved;
}

absl::Status GpuTier::CheckStep(SessionId session, uint64_t step) {
  const std::shared_ptr<const GpuWorker> worker = workers_.Find(session);
  workers_.words()->Observe();
  const uint64_t begun = worker->table->begun(worker->number);
  if (step <= begun) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("step: ", step, "; must have begun, as steps up to ", begun, " have"));
}

Task<bool> GpuTier::AwaitStep(SessionId session, uint64_t step, absl::Time deadline) {
  const std::shared_ptr<const GpuWorker> worker = workers_.Find(session);
  if (worker->gone) co_return false;
  const absl::StatusOr<bool> ended =
      co_await worker->words->Retired(worker->number, step, deadline);
  co_return ended.ok() && *ended;
}

Task<void> GpuTier::Gather(std::vector<CopiedBlock>* blocks) {
  std::vector<CopiedBlock*> with_room;
  std::vector<CopiedBlock> copies;
  for (CopiedBlock& block : *blocks) {
    absl::StatusOr<HostSlot> host = node_.evictor->ReserveHost(memory_.domain, block.meta.length);
    if (!host.ok()) continue;
    block.slot = block.gpu.ref();
    block.bytes = host->bytes();
    block.host = *std::move(host);
    copies.push_back(std::move(block));
    with_room.push_back(&block);
  }
  if (copies.empty()) co_return;
  const absl::Status copied = co_await copies_.Offload(copies, CopyUrgency::kBackground);
  for (size_t i = 0; i < copies.size(); ++i) {
    *with_room[i] = std::move(copies[i]);
    if (copied.ok()) {
      node_.stats->gpu.bytes_out += with_room[i]->meta.length;
    } else {
      with_room[i]->host.Release();
    }
  }
}

void GpuTier::Publish(const BlockMeta& meta, GpuSlot slot, const ReuseHint& hint) {
  if (blocks_.Contains(meta.key)) return;
  blocks_.Publish(meta, std::move(slot), Arrival::kComputed, hint);
  ++node_.stats->gpu.inserts;
}

std::optional<GpuHold> GpuTier::Hold(SessionId session, const Pin& pin) {
  const SlotRef slot = blocks_.Find(pin.key())->slot.ref();
  if (!memory_.pool->StaysOpen(slot.index)) return std::nullopt;
  return workers_.Hold(session, slot);
}

void GpuTier::Drop(const BlockKey& key) {
  if (blocks_.Contains(key) && blocks_.MayLeave(key)) evictor_.Drop(key);
}

size_t GpuTier::Close(SessionId session) {
  workers_.Close(session);
  return grants_.EndSession(session);
}

void GpuTier::WritesOver(SessionId session) {
  grants_.ReleaseAll(session);
  workers_.Sweep();
}

void GpuTier::EndWaits() {
  workers_.words()->EndWaits();
  resizer_.Stop();
}

void GpuTier::Audit() const {
  memory_.pool->Audit();
  blocks_.Audit();
}

}  // namespace kvtier
