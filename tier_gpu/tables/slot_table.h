// SlotTable knows for every slot of one pool what may still touch it: the workers that hold it, the
// cache that keeps it, and the compute that was submitted while it was held. A slot is handed out
// again only when all of them are done with it.
//
// A slot's life: free -> filling -> sealed -> draining -> free. It is filling from Allocate() to
// Seal(), and written by its holders; sealed bytes never change again. It is draining from the end
// of its last hold until the steps that may read it have retired: a kernel or copy that was
// submitted before a release runs after it.
//
// Steps are a worker's own timeline: what it submits in step n may read every slot that it holds at
// some time between Begin(n) and Begin(n + 1), and Retire(n) says that all of this has ended. An
// agent's lane may be a worker of its own.
//
// Pure bookkeeping: no I/O, no clock, no threads. Executor thread only. Calls are O(1) and allocate
// nothing, except Crash(), Audit() and those whose comment gives a cost; Retire() is linear in the
// slots it frees. An error changes nothing. Memory: 16 bytes a slot, and 24 for each slot and
// worker.
// Invariants, checked by Audit(): a slot's holds are the sum of its workers' and the cache's; only
// sealed slots are kept; the free list has exactly the open slots without holds and without
// readers.
#ifndef KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_
#define KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// Process that maps the pool, by the place that the pool gave it: 0, 1...
enum class PoolWorker : uint32_t {};

// Name of one allocation of a slot. The generation rises with every reuse, so an older name is
// detected; it repeats after 2^32 reuses of one slot.
struct SlotRef {
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const SlotRef&) const = default;
};

enum class SlotState : uint8_t { kFree, kFilling, kSealed, kDraining };

class SlotTable {
 public:
  struct Options {
    uint32_t slots = 0;    // Number of slots in the pool; 1..2^32-2.
    uint32_t workers = 1;  // Number of workers that may map the pool at a time; 1 or more.
  };
  // Makes a table in which all slots are free. REQUIRES: the ranges above.
  explicit SlotTable(Options options);

  // REQUIRES, for all methods: `worker` is below options.workers; the pool numbers its workers.

  // Takes a free slot, filling, held once by `worker`. Errors: kResourceExhausted, none is free
  // (evict, preempt, or wait until something retires).
  absl::StatusOr<SlotRef> Allocate(PoolWorker worker);
  // Adds one hold; holds are counted. Errors: kAborted, the slot was reused since.
  absl::Status Hold(PoolWorker worker, SlotRef slot);
  // Ends one hold. Work that the worker submitted up to its current step may still read the slot.
  // Errors: kAborted, the slot was reused since; kFailedPrecondition, `worker` does not hold it.
  absl::Status Release(PoolWorker worker, SlotRef slot);
  // Declares the bytes complete: the caller knows that the steps that wrote them have retired, or
  // shares them only with work that runs after those steps. Sealing again changes nothing. Errors:
  // kAborted, as above.
  absl::Status Seal(SlotRef slot);
  // Makes the cache hold the slot, whatever the workers do. Errors: kAborted, as above;
  // kFailedPrecondition, not sealed; kAlreadyExists, kept already.
  absl::Status Keep(SlotRef slot);
  // Ends the cache's hold. Errors: kAborted, as above; kFailedPrecondition, not kept.
  absl::Status Drop(SlotRef slot);

  // Begins a step. Errors: kInvalidArgument, `step` is not above the one that began last. The first
  // step is 1 or later.
  absl::Status Begin(PoolWorker worker, uint64_t step);
  // Declares that everything up to `step` has ended; a step older than the last retired one has no
  // effect. Errors: kInvalidArgument, `step` has not begun.
  absl::Status Retire(PoolWorker worker, uint64_t step);
  // Removes a worker that is dead and whose context is torn down, so that nothing of it runs: its
  // holds end, its steps are retired, and the next worker with this number counts steps from 1
  // again. Slots that the cache or others hold stay. O(slots).
  void Crash(PoolWorker worker);

  // Adds `slots` free slots at the end. Older names of a slot number that was cut off before stay
  // stale. REQUIRES: no slot is closed.
  void Grow(uint32_t slots);
  // Begins to shrink the pool: no slot from `first` on is handed out until these slots are cut off
  // or reopened. O(slots).
  void CloseFrom(uint32_t first);
  void Reopen();
  bool closed() const { return closed_from_ < slots_.size(); }
  // Returns the first closed slot; slots() if none is closed.
  size_t closed_from() const { return closed_from_; }
  // Returns how many closed slots are still held or read.
  size_t closed_in_use() const { return slots_.size() - closed_from_ - closed_free_; }
  // Returns the slot after the last closed slot in use; closed_from() if there is none. O(closed
  // slots).
  size_t closed_use_end() const;
  // Removes the slots from `slots` on. REQUIRES: closed_use_end() <= slots, and at least one slot
  // is left.
  void CutTo(size_t slots);

  // Returns kAborted, naming both generations, if `slot` was reused or freed since.
  absl::Status Check(SlotRef slot) const;
  // REQUIRES, for these: index < slots().
  SlotState state(uint32_t index) const;
  // Returns the slot's present name. REQUIRES also: the slot is held.
  SlotRef Ref(uint32_t index) const { return {index, slots_[index].generation}; }
  // Returns the holds of all workers and of the cache.
  uint32_t holds(uint32_t index) const { return slots_[index].holds; }
  uint32_t holds(PoolWorker worker, uint32_t index) const { return UseOf(worker, index).holds; }
  // Returns whether `worker` holds the slot, or its steps may still touch it.
  bool busy(PoolWorker worker, uint32_t index) const {
    const Use& use = UseOf(worker, index);
    return use.holds > 0 || use.linked;
  }
  bool sealed(uint32_t index) const { return slots_[index].sealed; }
  bool kept(uint32_t index) const { return slots_[index].kept; }
  // Returns whether `worker`, which holds the slot, may write it in place: no other worker and no
  // cache holds it, no other worker's steps may still read it, and it is not sealed. The worker's
  // own steps run in order.
  bool writable(PoolWorker worker, uint32_t index) const {
    const Slot& slot = slots_[index];
    return slot.holds == 1 && !slot.sealed && slot.readers == (UseOf(worker, index).linked ? 1 : 0);
  }

  uint64_t begun(PoolWorker worker) const { return of(worker).begun; }
  uint64_t retired(PoolWorker worker) const { return of(worker).retired; }
  size_t slots() const { return slots_.size(); }
  size_t workers() const { return workers_.size(); }
  size_t free_slots() const { return free_.size(); }
  size_t draining_slots() const { return draining_; }
  // Returns how many slots are held or draining.
  size_t used_slots() const { return slots_.size() - free_.size() - closed_free_; }
  // Aborts when an invariant of the header does not hold; O(slots * workers).
  void Audit() const;

 private:
  struct Slot {
    uint32_t generation = 1;
    uint32_t holds = 0;
    uint32_t readers = 0;  // Number of workers in whose list the slot is.
    bool sealed = false;
    bool kept = false;
  };
  // Use of one slot by one worker. After the worker's last hold has ended, the use is linked into
  // the worker's list until the steps that may read the slot have retired.
  struct Use {
    uint64_t step = 0;  // Last step that may read the slot; meaningful if linked.
    uint32_t holds = 0;
    uint32_t before = 0;  // Neighbours in the list, by slot.
    uint32_t after = 0;
    bool linked = false;
  };
  struct Worker {
    uint64_t begun = 0;
    uint64_t retired = 0;
    uint32_t oldest = kNone;  // First and last of the list of uses, by step.
    uint32_t newest = kNone;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  Worker& of(PoolWorker worker) { return workers_[static_cast<uint32_t>(worker)]; }
  const Worker& of(PoolWorker worker) const { return workers_[static_cast<uint32_t>(worker)]; }
  Use& UseOf(PoolWorker worker, uint32_t index) {
    return uses_[index * workers_.size() + static_cast<size_t>(worker)];
  }
  const Use& UseOf(PoolWorker worker, uint32_t index) const {
    return uses_[index * workers_.size() + static_cast<size_t>(worker)];
  }
  void Link(PoolWorker worker, uint32_t index);
  void Unlink(PoolWorker worker, uint32_t index);
  // Ends a use: the steps that may read the slot have retired.
  void EndReading(PoolWorker worker, uint32_t index);
  // Ends one hold; the end of the last one makes every name of the slot stale.
  void EndHold(uint32_t index);
  // Frees a slot that nothing holds or reads any more.
  void GiveBack(uint32_t index);

  std::vector<Slot> slots_;
  std::vector<Use> uses_;  // Uses by slot, then by worker.
  std::vector<Worker> workers_;
  std::vector<uint32_t> free_;  // LIFO: warmest first.
  size_t draining_ = 0;
  size_t closed_from_ = 0;  // slots_.size(): none are closed.
  size_t closed_free_ = 0;
  // First generation of slots to come: above all that were cut off.
  uint32_t first_generation_ = 1;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_
