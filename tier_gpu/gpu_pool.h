// GpuPool is the node's paged block pool on one device: slots that each hold one
// block, contiguous over all layers, shared with workers by file descriptor. The
// agent owns it, so it survives a worker's crash.
//
// Executor thread only. It knows nothing of keys; eviction is the agent's.
#ifndef KVTIER_TIER_GPU_GPU_POOL_H_
#define KVTIER_TIER_GPU_GPU_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/task.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

class GpuPool;

// Room for one block. Move-only; the destructor gives it back to the pool, which
// must still be alive.
class GpuSlot {
 public:
  GpuSlot() = default;
  GpuSlot(GpuSlot&& other) noexcept;
  GpuSlot& operator=(GpuSlot&& other) noexcept;
  ~GpuSlot();
  explicit operator bool() const { return pool_ != nullptr; }
  uint64_t offset() const { return offset_; }  // Bytes from the start of the region.
  void Release();

 private:
  friend class GpuPool;
  GpuPool* pool_ = nullptr;
  uint64_t offset_ = 0;
};

// One block between a GPU slot and host memory of the pool's slot size.
struct GpuTransfer {
  uint64_t slot_offset = 0;
  std::span<std::byte> host;
};

class GpuPool {
 public:
  // All slots are `slot_bytes`: a pool serves one space. `pool_bytes` is rounded
  // down to whole slots. REQUIRES: slot_bytes is a positive multiple of 4096, and
  // the pool holds one slot at least. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<GpuPool>> Create(Device* device, uint64_t pool_bytes,
                                                         uint64_t slot_bytes);
  // REQUIRES: every slot was given back.
  ~GpuPool();
  GpuPool(const GpuPool&) = delete;
  GpuPool& operator=(const GpuPool&) = delete;

  // Errors: kResourceExhausted, none is free (evict, then retry).
  absl::StatusOr<GpuSlot> Reserve();
  // Scatter: host memory into the slots. Gather: the slots into host memory. Both
  // end when every byte has arrived. REQUIRES: the slots are reserved and, as
  // `blocks` and its host memory, stay until the task ends; host memory is
  // slot_bytes() long. Errors: the device's; on an error the destination is
  // undefined.
  Task<absl::Status> Scatter(std::span<const GpuTransfer> blocks);
  Task<absl::Status> Gather(std::span<const GpuTransfer> blocks);

  int fd() const { return region_->fd(); }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t capacity_bytes() const { return taken_.size() * slot_bytes_; }
  uint64_t used_bytes() const { return capacity_bytes() - free_.size() * slot_bytes_; }
  void Audit() const;

 private:
  friend class GpuSlot;
  GpuPool(Device* device, std::unique_ptr<DeviceRegion> region, uint64_t slot_bytes, size_t slots);
  Task<absl::Status> Copy(CopyDirection direction, std::span<const GpuTransfer> blocks);
  void Free(uint64_t offset);

  Device* const device_;  // Not owned.
  const std::unique_ptr<DeviceRegion> region_;
  const uint64_t slot_bytes_;
  std::vector<size_t> free_;  // Slot numbers, LIFO: warmest first.
  std::vector<bool> taken_;   // By slot number.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_GPU_POOL_H_
