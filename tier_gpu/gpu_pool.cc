#include "tier_gpu/gpu_pool.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {

GpuSlot::GpuSlot(GpuSlot&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), offset_(other.offset_) {}

GpuSlot& GpuSlot::operator=(GpuSlot&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::exchange(other.pool_, nullptr);
  offset_ = other.offset_;
  return *this;
}

GpuSlot::~GpuSlot() { Release(); }

void GpuSlot::Release() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Free(offset_);
}

absl::StatusOr<std::unique_ptr<GpuPool>> GpuPool::Create(Device* device, uint64_t pool_bytes,
                                                         uint64_t slot_bytes) {
  KVT_CHECK(slot_bytes > 0 && slot_bytes % kBlockAlignment == 0);
  const size_t slots = pool_bytes / slot_bytes;
  KVT_CHECK(slots > 0);
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceRegion> region,
                       device->CreateRegion(slots * slot_bytes));
  return absl::WrapUnique(new GpuPool(device, std::move(region), slot_bytes, slots));
}

GpuPool::GpuPool(Device* device, std::unique_ptr<DeviceRegion> region, uint64_t slot_bytes,
                 size_t slots)
    : device_(device), region_(std::move(region)), slot_bytes_(slot_bytes), taken_(slots, false) {
  free_.reserve(slots);
  for (size_t slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

GpuPool::~GpuPool() { KVT_CHECK(used_bytes() == 0); }

absl::StatusOr<GpuSlot> GpuPool::Reserve() {
  if (free_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", taken_.size(), " slots of the GPU pool are used"));
  }
  const size_t number = free_.back();
  free_.pop_back();
  taken_[number] = true;
  GpuSlot slot;
  slot.pool_ = this;
  slot.offset_ = number * slot_bytes_;
  return slot;
}

void GpuPool::Free(uint64_t offset) {
  const size_t number = offset / slot_bytes_;
  KVT_CHECK(offset % slot_bytes_ == 0 && number < taken_.size() && taken_[number]);
  taken_[number] = false;
  free_.push_back(number);
}

Task<absl::Status> GpuPool::Scatter(std::span<const GpuTransfer> blocks) {
  return Copy(CopyDirection::kHostToDevice, blocks);
}

Task<absl::Status> GpuPool::Gather(std::span<const GpuTransfer> blocks) {
  return Copy(CopyDirection::kDeviceToHost, blocks);
}

Task<absl::Status> GpuPool::Copy(CopyDirection direction, std::span<const GpuTransfer> blocks) {
  std::vector<CopySegment> segments;
  while (!blocks.empty()) {
    const auto batch = blocks.first(std::min(blocks.size(), kMaxCopySegments));
    blocks = blocks.subspan(batch.size());
    segments.clear();
    for (const GpuTransfer& block : batch) {
      const size_t number = block.slot_offset / slot_bytes_;
      KVT_CHECK(block.slot_offset % slot_bytes_ == 0);
      KVT_CHECK(number < taken_.size() && taken_[number]);
      KVT_CHECK(block.host.size() == slot_bytes_);
      segments.push_back({block.slot_offset, block.host.data(), slot_bytes_});
    }
    const absl::Status copied = co_await device_->Copy(direction, region_.get(), segments);
    KVT_CO_RETURN_IF_ERROR(copied);
  }
  co_return absl::OkStatus();
}

void GpuPool::Audit() const {
  KVT_CHECK(region_->bytes() >= capacity_bytes());
  std::vector<bool> seen = taken_;
  for (const size_t slot : free_) {
    KVT_CHECK(slot < seen.size() && !seen[slot]);
    seen[slot] = true;
  }
  KVT_CHECK(std::all_of(seen.begin(), seen.end(), [](bool known) { return known; }));
}

}  // namespace kvtier
