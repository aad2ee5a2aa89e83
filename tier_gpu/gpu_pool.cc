#include "tier_gpu/gpu_pool.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

// Size of one handle. A driver allocates a large handle as fast as a small one, but the unit in
// which the pool grows and shrinks should be small beside a GPU.
constexpr uint64_t kHandleBytes = uint64_t{1} << 30;

uint64_t HandleBytesFor(uint64_t pool_bytes, uint64_t max_bytes) {
  const uint64_t least = (max_bytes + kMaxRegionHandles - 1) / kMaxRegionHandles;
  const uint64_t handle = std::min(pool_bytes, std::max(least, kHandleBytes));
  return (handle + kRegionGranularity - 1) / kRegionGranularity * kRegionGranularity;
}

RegionShape ShapeFor(uint64_t pool_bytes, uint64_t max_bytes, uint64_t handle_bytes) {
  const uint64_t begun = (pool_bytes + handle_bytes - 1) / handle_bytes;
  return {.handle_bytes = handle_bytes,
          .max_handles =
              std::min<uint64_t>(std::max(begun, max_bytes / handle_bytes), kMaxRegionHandles)};
}

}  // namespace

GpuSlot::GpuSlot(GpuSlot&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), ref_(other.ref_) {}

GpuSlot& GpuSlot::operator=(GpuSlot&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::exchange(other.pool_, nullptr);
  ref_ = other.ref_;
  return *this;
}

GpuSlot::~GpuSlot() { Release(); }

uint64_t GpuSlot::offset() const { return pool_->OffsetOf(ref_.index); }

void GpuSlot::Release() {
  if (pool_ == nullptr) return;
  KVT_CHECK(std::exchange(pool_, nullptr)->table_.Release(kPoolAgent, ref_).ok());
}

absl::StatusOr<std::unique_ptr<GpuPool>> GpuPool::Create(Device* device, LaneRunner* runner,
                                                         const Options& options) {
  KVT_CHECK(options.slot_bytes > 0 && options.slot_bytes % kBlockAlignment == 0);
  const uint64_t slots = options.bytes / options.slot_bytes;
  KVT_CHECK(slots > 0 && slots < ~uint32_t{0});
  const uint64_t bytes = slots * options.slot_bytes;
  const uint64_t max_bytes = std::max(bytes, options.max_bytes);
  const uint64_t handle_bytes =
      options.handle_bytes > 0 ? options.handle_bytes : HandleBytesFor(bytes, max_bytes);
  const RegionShape shape = ShapeFor(bytes, max_bytes, handle_bytes);
  const uint64_t handles = (bytes + shape.handle_bytes - 1) / shape.handle_bytes;
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceRegion> region, device->CreateRegion(shape, handles));
  return absl::WrapUnique(
      new GpuPool(runner, std::move(region), options, static_cast<uint32_t>(slots)));
}

GpuPool::GpuPool(LaneRunner* runner, std::unique_ptr<DeviceRegion> region, const Options& options,
                 uint32_t slots)
    : runner_(runner),
      region_(std::move(region)),
      slot_bytes_(options.slot_bytes),
      host_(options.host),
      table_({.slots = slots, .workers = kMaxPoolWorkers}) {
  for (size_t i = 0; i < region_->handles(); ++i) {
    handles_.push_back({.descriptor = region_->descriptor(i), .since = version_});
  }
}

GpuPool::~GpuPool() { KVT_CHECK(used_bytes() == 0); }

Task<absl::Status> GpuPool::Grow() {
  KVT_CHECK(!changing_);
  if (table_.closed()) {
    co_return absl::FailedPreconditionError(
        "GPU pool: it cannot grow while it shrinks; try again when it has its new size");
  }
  struct Grown {
    absl::Status status;
    int descriptor = -1;
  };
  const auto grown = std::make_shared<Grown>();
  absl::AnyInvocable<void()> grow = [region = region_.get(), grown] {
    grown->status = region->Grow();
    if (grown->status.ok()) grown->descriptor = region->descriptor(region->handles() - 1);
  };
  changing_ = true;
  co_await runner_->RunBetweenPolls(std::move(grow));
  changing_ = false;
  if (!grown->status.ok()) co_return grown->status;
  handles_.push_back({.descriptor = grown->descriptor, .since = ++version_});
  table_.Grow(SlotsIn(handles_.size()) - static_cast<uint32_t>(table_.slots()));
  co_return absl::OkStatus();
}

void GpuPool::BeginShrink(size_t handles) {
  KVT_CHECK(!changing_ && handles > 0 && handles <= handles_.size());
  table_.Reopen();
  table_.CloseFrom(SlotsIn(handles));
}

Task<size_t> GpuPool::FreeClosed() {
  KVT_CHECK(!changing_);
  const size_t in_use = table_.closed_use_end();
  size_t left = handles_.size();
  while (left > 1 && SlotsIn(left - 1) >= in_use) --left;
  const size_t freed = handles_.size() - left;
  if (freed == 0) co_return 0;
  table_.CutTo(SlotsIn(left));
  handles_.resize(left);
  ++version_;
  absl::AnyInvocable<void()> shrink = [region = region_.get(), freed] {
    for (size_t i = 0; i < freed; ++i) region->Shrink();
  };
  changing_ = true;
  co_await runner_->RunBetweenPolls(std::move(shrink));
  changing_ = false;
  co_return freed;
}

absl::StatusOr<GpuSlot> GpuPool::Reserve() {
  GpuSlot slot;
  KVT_ASSIGN_OR_RETURN(slot.ref_, table_.Allocate(kPoolAgent));
  slot.pool_ = this;
  return slot;
}

GpuSlot GpuPool::HoldAgain(SlotRef slot) {
  KVT_CHECK(table_.Hold(kPoolAgent, slot).ok());
  GpuSlot again;
  again.pool_ = this;
  again.ref_ = slot;
  return again;
}

Task<absl::Status> GpuPool::Scatter(std::span<const GpuTransfer> blocks) {
  return Copy(CopyDirection::kHostToDevice, CopyUrgency::kForeground, blocks);
}

Task<absl::Status> GpuPool::Gather(std::span<const GpuTransfer> blocks, CopyUrgency urgency) {
  return Copy(CopyDirection::kDeviceToHost, urgency, blocks);
}

Task<absl::Status> GpuPool::Copy(CopyDirection direction, CopyUrgency urgency,
                                 std::span<const GpuTransfer> blocks) {
  std::vector<SlotCopy> copies;
  copies.reserve(blocks.size());
  for (const GpuTransfer& block : blocks) {
    KVT_CHECK(table_.Check(block.slot).ok() && block.host.size() == slot_bytes_);
    copies.push_back({.device_offset = OffsetOf(block.slot.index), .host = block.host});
  }
  LaneRunner::Copy copy = {.direction = direction, .urgency = urgency, .region = region_.get()};
  for (std::vector<CopySegment>& segments : PlanSlotCopies(copies, host_, handle_bytes())) {
    copy.batches.emplace_back().segments = std::move(segments);
  }
  co_return co_await runner_->Run(std::move(copy));
}

void GpuPool::Audit() const {
  KVT_CHECK(!handles_.empty() && capacity_bytes() <= handles_.size() * handle_bytes());
  for (size_t i = 0; i < handles_.size(); ++i) {
    KVT_CHECK(handles_[i].since <= version_);
    KVT_CHECK(i == 0 || handles_[i - 1].since <= handles_[i].since);
  }
  table_.Audit();
}

}  // namespace kvtier
