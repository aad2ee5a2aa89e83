// GpuPool is the node's paged block pool on one device: slots that each hold one
// block, contiguous over all layers, in memory that workers map by file descriptors.
// The agent owns it, so it survives a worker's crash. Who may still touch a slot is
// known by its slot table; this is the memory behind it, and the copies.
//
// It grows and shrinks by whole handles while copies run. The region itself is changed and
// looked at on the lanes' thread alone; what the executor knows of it are the handles
// below: memory comes before its slots, and slots go before their memory.
//
// Executor thread only. It knows nothing of keys; eviction is the agent's. Invariants,
// checked by Audit(): every slot lies in the handles; handles are in the order in which
// they came.
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
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/plan/slot_copies.h"
#include "tier_gpu/tables/slot_table.h"

namespace kvtier {

class GpuPool;

// Processes that may hold slots of one pool: the agent, and the workers it numbers.
inline constexpr uint32_t kMaxPoolWorkers = 16;
inline constexpr PoolWorker kPoolAgent{0};

// The agent's hold on room for one block. Move-only; the destructor ends it, and the
// pool must still be alive.
class GpuSlot {
 public:
  GpuSlot() = default;
  GpuSlot(GpuSlot&& other) noexcept;
  GpuSlot& operator=(GpuSlot&& other) noexcept;
  ~GpuSlot();
  explicit operator bool() const { return pool_ != nullptr; }
  // Bytes from the start of the region. REQUIRES of these two: not empty.
  uint64_t offset() const;
  SlotRef ref() const { return ref_; }
  void Release();

 private:
  friend class GpuPool;
  GpuPool* pool_ = nullptr;
  SlotRef ref_;
};

// One block between a GPU slot and host memory of the pool's slot size.
struct GpuTransfer {
  SlotRef slot;
  std::span<std::byte> host;
};

// One handle of the pool's memory, as workers are told of it.
struct PoolHandle {
  int descriptor = -1;  // The region's; closed after the handle is no longer here.
  uint64_t since = 0;   // The pool's version that it came with: other memory has another.
};

class GpuPool {
 public:
  struct Options {
    uint64_t bytes = 0;       // Memory to begin with; rounded down to whole slots, one at least.
    uint64_t slot_bytes = 0;  // Size of every slot, a multiple of 4096: a pool serves one space.
    uint64_t max_bytes = 0;   // Memory that it may grow to; less than `bytes`: `bytes`.
    PinnedChunks host{};      // Host memory of all transfers.
  };
  // Neither device nor runner is owned. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<GpuPool>> Create(Device* device, LaneRunner* runner,
                                                         const Options& options);
  // REQUIRES: every slot was given back.
  ~GpuPool();
  GpuPool(const GpuPool&) = delete;
  GpuPool& operator=(const GpuPool&) = delete;

  // Errors: kResourceExhausted, none is free (evict, then retry).
  absl::StatusOr<GpuSlot> Reserve();
  // Returns one more hold of the agent's on a slot. REQUIRES: the slot is held.
  GpuSlot HoldAgain(SlotRef slot);

  // One more handle of memory, and its slots. REQUIRES: neither this nor Cut() is under
  // way. Errors: kResourceExhausted, no memory, or the pool is as large as it may become;
  // kFailedPrecondition, it is shrinking.
  Task<absl::Status> Grow();
  // The pool is to have `handles`: what does not lie in them whole is not handed out any
  // more. REQUIRES: 1 <= handles <= handles().size(), and as Grow().
  void CloseBeyond(size_t handles);
  // Gives the last handles of what is closed back as far as nobody has to do with their
  // slots; returns how many (evict, wait for steps, and call it again). Workers that still
  // map them keep the memory. REQUIRES: as Grow().
  Task<size_t> Cut();
  // It is to stay as it is: what is closed is handed out again.
  void KeepSize() { table_.Reopen(); }
  // Goes up with every change of the handles. Who maps the pool as of some version has the
  // memory of every slot that was held at that version and still is.
  uint64_t version() const { return version_; }
  const std::vector<PoolHandle>& handles() const { return handles_; }
  // False: the slot is to leave the pool, and is given to nobody anew.
  bool Stays(uint32_t slot) const { return slot < table_.closed_from(); }
  uint64_t handle_bytes() const { return region_->shape().handle_bytes; }
  size_t max_handles() const { return region_->shape().max_handles; }

  // Scatter: host memory into the slots. Gather: the slots into host memory. What lies side
  // by side on both sides is one segment (PlanSlotCopies()). Both end when every byte
  // has arrived. REQUIRES: the slots are held and, as
  // `blocks` and its host memory, stay until the task ends; host memory is
  // slot_bytes() long and pinned. Errors: LaneRunner's; on an error the destination is
  // undefined. Of a copy that IsAbandoned() the caller never lets go of the slots, nor of the
  // host memory: it may still run.
  Task<absl::Status> Scatter(std::span<const GpuTransfer> blocks);
  Task<absl::Status> Gather(std::span<const GpuTransfer> blocks, CopyUrgency urgency);

  // Copies of the caller's own go through the pool's runner. The executor may look at its
  // address and shape only.
  DeviceRegion* region() const { return region_.get(); }
  SlotTable& table() { return table_; }
  const SlotTable& table() const { return table_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Slots lie side by side, across the borders of handles too: the region's addresses
  // are one range. Copies are cut there.
  uint64_t OffsetOf(uint32_t slot) const { return slot * slot_bytes_; }
  uint64_t capacity_bytes() const { return table_.slots() * slot_bytes_; }
  uint64_t used_bytes() const { return table_.used_slots() * slot_bytes_; }
  void Audit() const;

 private:
  friend class GpuSlot;
  GpuPool(LaneRunner* runner, std::unique_ptr<DeviceRegion> region, const Options& options,
          uint32_t slots);
  Task<absl::Status> Copy(CopyDirection direction, CopyUrgency urgency,
                          std::span<const GpuTransfer> blocks);
  // That lie whole in the first `handles`.
  uint32_t SlotsIn(size_t handles) const {
    return static_cast<uint32_t>(handles * handle_bytes() / slot_bytes_);
  }

  LaneRunner* const runner_;
  const std::unique_ptr<DeviceRegion> region_;
  const uint64_t slot_bytes_;
  const PinnedChunks host_;
  SlotTable table_;
  std::vector<PoolHandle> handles_;
  uint64_t version_ = 1;
  bool changing_ = false;  // Grow() or Cut() is under way.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_GPU_POOL_H_
