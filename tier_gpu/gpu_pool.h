// GpuPool is the node's paged block pool on one device: slots that each hold one block, contiguous
// over all layers, in memory that workers map by file descriptors. The agent owns it, so it
// survives a worker's crash. Its slot table knows which processes may still touch a slot; the pool
// owns the memory and makes the copies.
//
// The pool grows and shrinks by whole handles while copies run. Only the lanes' thread changes and
// reads the region itself. The executor knows the handles listed below: memory is added before its
// slots, and slots are removed before their memory.
//
// Executor thread only. The pool knows no keys, and the agent decides what is evicted. Invariants,
// checked by Audit(): every slot lies inside the handles; handles are in the order in which they
// were added.
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

// Maximum number of processes that may hold slots of one pool: the agent, and the workers that it
// numbers.
inline constexpr uint32_t kMaxPoolWorkers = 16;
inline constexpr PoolWorker kPoolAgent{0};

// GpuSlot is the agent's hold on room for one block. Move-only; the destructor ends the hold. The
// pool must outlive it.
class GpuSlot {
 public:
  GpuSlot() = default;
  GpuSlot(GpuSlot&& other) noexcept;
  GpuSlot& operator=(GpuSlot&& other) noexcept;
  ~GpuSlot();
  explicit operator bool() const { return pool_ != nullptr; }
  // Returns the offset in bytes from the start of the region. REQUIRES, also for ref(): not empty.
  uint64_t offset() const;
  SlotRef ref() const { return ref_; }
  void Release();

 private:
  friend class GpuPool;
  GpuPool* pool_ = nullptr;
  SlotRef ref_;
};

// Copy of one block between a GPU slot and host memory of the pool's slot size.
struct GpuTransfer {
  SlotRef slot;
  std::span<std::byte> host;
};

// PoolHandle describes one handle of the pool's memory to workers.
struct PoolHandle {
  // File descriptor, owned by the region; closed once the handle has left the pool.
  int descriptor = -1;
  // Version of the pool that added this handle. Other memory at the same place has another version.
  uint64_t since = 0;
};

class GpuPool {
 public:
  struct Options {
    uint64_t bytes = 0;  // Initial memory, rounded down to whole slots; at least one slot.
    // Size of every slot, a multiple of 4096. All slots have this size: a pool serves one space.
    uint64_t slot_bytes = 0;
    // Memory to which the pool may grow. A value below `bytes` means `bytes`.
    uint64_t max_bytes = 0;
    // Size of a handle, a multiple of kRegionGranularity, large enough that max_bytes take at most
    // kMaxRegionHandles handles; 0: the pool chooses.
    uint64_t handle_bytes = 0;
    PinnedChunks host{};  // Host memory of all transfers, and the chunks in which it is pinned.
  };
  // Creates the pool. Does not own device or runner. Errors: the device's.
  static absl::StatusOr<std::unique_ptr<GpuPool>> Create(Device* device, LaneRunner* runner,
                                                         const Options& options);
  // REQUIRES: every slot was given back.
  ~GpuPool();
  GpuPool(const GpuPool&) = delete;
  GpuPool& operator=(const GpuPool&) = delete;

  // Takes a free slot. Errors: kResourceExhausted, none is free (evict, then retry).
  absl::StatusOr<GpuSlot> Reserve();
  // Adds one more hold of the agent on a slot and returns it. REQUIRES: the slot is held.
  GpuSlot HoldAgain(SlotRef slot);

  // Adds one handle of memory, and its slots. REQUIRES: neither Grow() nor FreeClosed() is running.
  // Errors: kResourceExhausted, no memory, or the pool has its maximum size; kFailedPrecondition,
  // the pool is shrinking.
  Task<absl::Status> Grow();
  // Begins to shrink the pool to `handles` handles: slots that do not lie wholly inside them are no
  // longer handed out. REQUIRES: 1 <= handles <= handles().size(); neither Grow() nor FreeClosed()
  // is running.
  void BeginShrink(size_t handles);
  // Frees closed handles from the end, as many as have no slot in use, and returns how many it
  // freed. To free the rest, evict blocks, wait for steps to retire, and call FreeClosed() again.
  // Workers that still map a freed handle keep its memory. REQUIRES: as Grow().
  Task<size_t> FreeClosed();
  // Stops shrinking: closed slots are handed out again.
  void CancelShrink() { table_.Reopen(); }
  // Returns a number that rises with every change of the handles. A worker that maps the pool as of
  // some version has mapped every slot that was held at that version and is still held.
  uint64_t version() const { return version_; }
  const std::vector<PoolHandle>& handles() const { return handles_; }
  // Returns false if a shrink has closed the slot: the pool no longer hands it out.
  bool StaysOpen(uint32_t slot) const { return slot < table_.closed_from(); }
  uint64_t handle_bytes() const { return region_->shape().handle_bytes; }
  size_t max_handles() const { return region_->shape().max_handles; }

  // Scatter() copies host memory into the slots; Gather() copies the slots into host memory. Blocks
  // that are adjacent on both sides become one segment (PlanSlotCopies()). Both end when every byte
  // has arrived.
  // REQUIRES: the slots are held; they, `blocks` and its host memory stay until the task ends; host
  // memory is pinned and slot_bytes() long per block.
  // Errors: LaneRunner's. On an error the content of the destination is undefined. After a copy
  // that IsAbandoned(), the caller must never free the slots or the host memory: the copy may still
  // run.
  Task<absl::Status> Scatter(std::span<const GpuTransfer> blocks);
  Task<absl::Status> Gather(std::span<const GpuTransfer> blocks, CopyUrgency urgency);

  // Returns the region, for copies that the caller submits through the pool's runner. On the
  // executor's thread only its address and shape may be read.
  DeviceRegion* region() const { return region_.get(); }
  SlotTable& table() { return table_; }
  const SlotTable& table() const { return table_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Returns where the slot begins in the region. Slots are adjacent, also across the borders of
  // handles, because the region is one range of addresses. Copies are cut at the borders.
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
  // Returns how many slots lie wholly inside the first `handles` handles.
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
  bool changing_ = false;  // Whether Grow() or FreeClosed() is running.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_GPU_POOL_H_
