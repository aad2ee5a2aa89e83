#include "client/lanes/worker_pool.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/lanes/laid_out.h"
#include "client/lanes/onboard_flow.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// The pool's shared memory, as the session of now was handed it, on this device.
absl::StatusOr<std::unique_ptr<DeviceRegion>> ImportPool(WorkerLanes* lanes,
                                                         const GpuMemory& pool) {
  std::vector<int> descriptors;
  descriptors.reserve(pool.handles.size());
  for (const FileDescriptor& handle : pool.handles) descriptors.push_back(handle.get());
  const RegionShape shape = {.handle_bytes = pool.handle_bytes, .max_handles = pool.max_handles};
  return lanes->On([&] { return lanes->device()->ImportRegion(shape, descriptors); });
}

absl::Status CheckMarkTimeout(absl::Duration timeout) {
  if (timeout > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("mark_timeout is ", absl::FormatDuration(timeout), "; must be positive"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Register(WorkerLanes* lanes,
                                                                 const KvTensors& tensors,
                                                                 const SpaceSpec& spec) {
  KVT_ASSIGN_OR_RETURN(LaidOut laid_out, LayOut(tensors, spec));
  if (laid_out.stored && !lanes->device()->has_kernels()) {
    return absl::InvalidArgumentError(absl::StrCat("codec is \"", spec.codec, "\"; ",
                                                   lanes->device()->name(),
                                                   " was opened without kernels, which encode"));
  }
  auto memory = std::make_shared<PoolMemory>();
  KVT_ASSIGN_OR_RETURN(memory->region,
                       lanes->On([&] { return lanes->device()->AdoptRegion(tensors.tensors); }));
  KVT_ASSIGN_OR_RETURN(memory->space, lanes->client()->RegisterSpace(spec));
  memory->geometry = std::move(laid_out.geometry);
  memory->borders = std::move(laid_out.borders);
  memory->stored = laid_out.stored;
  return absl::WrapUnique(new WorkerPool(lanes, std::move(memory)));
}

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::OverGranted(WorkerLanes* lanes,
                                                                    GrantedSlots slots,
                                                                    const GrantedLayout& layout,
                                                                    const SpaceSpec& spec) {
  const std::shared_ptr<const GpuMemory> pool = lanes->client()->gpu_memory();
  if (slots.size() == 0 || pool == nullptr || !slots.In(*pool)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "granted slots: there are ", slots.size(), ", or the session that granted them is over"));
  }
  KVT_RETURN_IF_ERROR(spec.Validate());
  auto memory = std::make_shared<PoolMemory>();
  const uint32_t axes = layout.axes == KvAxes::kApart ? 2 : 1;
  // Ascending: the last is the highest.
  const uint32_t count = slots.numbers().back() + 1;
  memory->geometry =
      KvGeometry::Owned(layout.axes, spec.layers, spec.block_bytes / spec.layers / axes, count);
  if (spec.codec != kRawCodec) {
    return absl::InvalidArgumentError(absl::StrCat(
        "codec is \"", spec.codec, "\"; a granted slot has room for a stored block, not for KV"));
  }
  KVT_RETURN_IF_ERROR(StoredAs(memory->geometry, layout.order, spec).status());
  if (slots.block_bytes() != spec.block_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("granted slots are for blocks of ", slots.block_bytes(),
                     " bytes; the space's block_bytes is ", spec.block_bytes));
  }
  KVT_ASSIGN_OR_RETURN(memory->region, ImportPool(lanes, *pool));
  memory->borders = HandleBorders(memory->region->shape(), memory->region->handles());
  const DeviceRange all = {.offset = 0, .bytes = memory->region->bytes()};
  KVT_RETURN_IF_ERROR(memory->geometry.Validate({&all, 1}));
  KVT_ASSIGN_OR_RETURN(memory->space, lanes->client()->RegisterSpace(spec));
  memory->granted = std::move(slots);
  return absl::WrapUnique(new WorkerPool(lanes, std::move(memory)));
}

WorkerPool::WorkerPool(WorkerLanes* lanes, std::shared_ptr<PoolMemory> memory)
    : lanes_(lanes),
      memory_(std::move(memory)),
      may_touch_(memory_->geometry.slots, !memory_->granted) {
  if (!memory_->granted) return;
  for (const uint32_t number : memory_->granted->numbers()) may_touch_[number] = true;
}

WorkerPool::~WorkerPool() {
  {
    const absl::MutexLock lock(&mu_);
    const auto idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return jobs_ == 0; };
    mu_.Await(absl::Condition(&idle));
  }
  lanes_->On([this] {
    memory_->region.reset();
    return true;
  });
}

absl::Status WorkerPool::Check(const KeyedSlots& blocks) const {
  if (blocks.keys.size() != blocks.slots.size() || blocks.keys.size() > Client::kMaxKeys) {
    return absl::InvalidArgumentError(absl::StrCat("a job of ", blocks.keys.size(), " keys and ",
                                                   blocks.slots.size(), " slots; may have ",
                                                   Client::kMaxKeys, ", as many of each"));
  }
  for (size_t i = 0; i < blocks.slots.size(); ++i) {
    KVT_RETURN_IF_ERROR(CheckSlot("slots", i, blocks.slots[i]));
  }
  return absl::OkStatus();
}

absl::Status WorkerPool::CheckSlot(const char* field, size_t i, uint32_t slot) const {
  if (slot < may_touch_.size() && may_touch_[slot]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, "[", i, "] is ", slot, " of ",
                                                 may_touch_.size(),
                                                 memory_->granted ? ", not granted" : ""));
}

absl::Status WorkerPool::CheckCopies(std::span<const BlockCopy> copies) const {
  std::vector<uint32_t> written;
  for (size_t i = 0; i < copies.size(); ++i) {
    KVT_RETURN_IF_ERROR(CheckSlot("copies.from", i, copies[i].from));
    KVT_RETURN_IF_ERROR(CheckSlot("copies.to", i, copies[i].to));
    written.push_back(copies[i].to);
  }
  std::ranges::sort(written);
  if (const auto twice = std::ranges::adjacent_find(written); twice != written.end()) {
    return absl::InvalidArgumentError(absl::StrCat("copies.to has ", *twice, " twice"));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!std::ranges::binary_search(written, copies[i].from)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("copies.from[", i, "] is ", copies[i].from, ", which is copied to as well"));
  }
  return absl::OkStatus();
}

absl::Status WorkerPool::CopyBlocks(std::span<const BlockCopy> copies) {
  KVT_RETURN_IF_ERROR(CheckCopies(copies));
  if (!memory_->ours()) {
    return absl::AbortedError("copies: the session that granted the slots is over");
  }
  const KvGeometry& geometry = memory_->geometry;
  const LayerRange all = {.first = 0, .count = geometry.layers};
  std::vector<InnerCopy> pieces;
  for (const BlockCopy& copy : copies) {
    const std::vector<KvRun> from = geometry.Runs(copy.from, all);
    const std::vector<KvRun> to = geometry.Runs(copy.to, all);
    // Slots of one pool are laid out alike.
    for (size_t i = 0; i < from.size(); ++i) {
      pieces.push_back({from[i].device_offset, to[i].device_offset, from[i].bytes});
    }
  }
  return lanes_->On([this, &pieces] {
    for (size_t first = 0; first < pieces.size(); first += kMaxCopySegments) {
      const size_t count = std::min(kMaxCopySegments, pieces.size() - first);
      KVT_RETURN_IF_ERROR(
          lanes_->device()
              ->CopyInside(*memory_->region, std::span(pieces).subspan(first, count))
              .status());
    }
    return absl::OkStatus();
  });
}

absl::Status WorkerPool::CheckOnce(const KeyedSlots& blocks) const {
  std::vector<uint32_t> sorted(blocks.slots.begin(), blocks.slots.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slots has ", *twice, " twice"));
}

template <typename Work>
absl::Status WorkerPool::Start(CopyDirection direction, std::shared_ptr<Work> work,
                               Task<WorkerLanes::Tell> (*flow)(const LaneParts&,
                                                               std::shared_ptr<Work>)) {
  {
    const absl::MutexLock lock(&mu_);
    ++jobs_;
  }
  const auto ended = [this] {
    const absl::MutexLock lock(&mu_);
    --jobs_;
  };
  const absl::Status started = lanes_->Start(
      direction,
      [flow, work = std::move(work)](const LaneParts& parts) mutable {
        return flow(parts, std::move(work));
      },
      ended);
  if (!started.ok()) ended();
  return started;
}

absl::StatusOr<std::shared_ptr<LaneJob>> WorkerPool::Offload(const KeyedSlots& blocks,
                                                             const OffloadOptions& options) {
  KVT_RETURN_IF_ERROR(Check(blocks));
  KVT_RETURN_IF_ERROR(CheckMarkTimeout(options.mark_timeout));
  auto work = std::make_shared<OffloadWork>();
  work->memory = memory_;
  work->job = std::make_shared<LaneJob>(std::nullopt, memory_->geometry.layers);
  work->keys.assign(blocks.keys.begin(), blocks.keys.end());
  work->slots.assign(blocks.slots.begin(), blocks.slots.end());
  work->options.parent = options.parent;
  work->after = options.after;
  work->mark_timeout = std::min(options.mark_timeout, Client::kMaxTimeout);
  work->hooks = options.hooks;
  std::shared_ptr<LaneJob> job = work->job;
  KVT_RETURN_IF_ERROR(Start(CopyDirection::kDeviceToHost, std::move(work), &OffloadFlow));
  return job;
}

absl::StatusOr<std::shared_ptr<LaneJob>> WorkerPool::Onboard(const KeyedSlots& blocks,
                                                             const LaneOnboardOptions& options) {
  KVT_RETURN_IF_ERROR(Check(blocks));
  KVT_RETURN_IF_ERROR(CheckOnce(blocks));
  KVT_RETURN_IF_ERROR(CheckMarkTimeout(options.mark_timeout));
  auto work = std::make_shared<OnboardWork>();
  work->memory = memory_;
  std::optional<ProgressWord> progress;
  const uint32_t layers = memory_->geometry.layers;
  if (options.order == PlanOrder::kLayerWise || options.hooks.submitted != nullptr) {
    progress = lanes_->words()->Take();
    if (!progress) return absl::ResourceExhaustedError("lanes: every progress word is taken");
  }
  work->job = std::make_shared<LaneJob>(progress, layers);
  work->keys.assign(blocks.keys.begin(), blocks.keys.end());
  work->slots.assign(blocks.slots.begin(), blocks.slots.end());
  work->options = {.timeout = options.timeout, .local_only = options.local_only};
  work->after = options.after;
  work->mark_timeout = std::min(options.mark_timeout, Client::kMaxTimeout);
  work->order = options.order;
  work->hooks = options.hooks;
  std::shared_ptr<LaneJob> job = work->job;
  const absl::Status started = Start(CopyDirection::kHostToDevice, std::move(work), &OnboardFlow);
  if (started.ok()) return job;
  if (progress) lanes_->words()->GiveBack(*progress, 0);
  return started;
}

}  // namespace kvtier
