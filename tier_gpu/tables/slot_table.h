// SlotTable knows of every slot of one pool who may still touch it: the workers that
// hold it, the cache that keeps it, and the compute that was submitted while it was
// held. A slot is handed out again only when all of them are done with it.
//
// A slot's life: free -> filling -> sealed -> draining -> free. It is filling from
// Allocate() to Seal(), written by whoever holds it; sealed bytes never change again.
// It is draining from its last hold's end until the steps that may read it retired:
// a kernel or copy that was submitted before a release runs after it.
//
// Steps are a worker's own timeline: what it submits in step n may read every slot
// that it holds at some time between Begin(n) and Begin(n + 1), and Retire(n) says
// that all of this has ended. One agent lane may be a worker of its own.
//
// Pure bookkeeping: no I/O, no clock, no threads. Executor thread only. Every call
// but Crash() and Audit() is O(1) (Retire(): in what it retires) and allocates
// nothing. An error changes nothing. Memory: 16 bytes a slot, and 24 for each slot
// and worker.
// Invariants, checked by Audit(): a slot's holds are the sum of its workers' and the
// cache's; only sealed slots are kept; the free list has exactly the open slots
// without holds and without readers.
#ifndef KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_
#define KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// One of the processes that map the pool, by the place that the pool gave it: 0, 1...
enum class PoolWorker : uint32_t {};

// A slot as it was allocated once. The generation goes up with every reuse, so a name
// from before is found out; it repeats after 2^32 reuses of one slot.
struct SlotRef {
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const SlotRef&) const = default;
};

enum class SlotState : uint8_t { kFree, kFilling, kSealed, kDraining };

class SlotTable {
 public:
  struct Options {
    uint32_t slots = 0;    // Of the pool; 1..2^32-2.
    uint32_t workers = 1;  // That may map the pool at a time; 1 or more.
  };
  // All slots are free. REQUIRES: the ranges above.
  explicit SlotTable(Options options);

  // `worker` is below options.workers everywhere: the pool numbers its workers.

  // A free slot, filling, held once by `worker`. Errors: kResourceExhausted, none is
  // free (evict, preempt, or wait until something retires).
  absl::StatusOr<SlotRef> Allocate(PoolWorker worker);
  // One more hold; holds count. Errors: kAborted, the slot was reused since.
  absl::Status Hold(PoolWorker worker, SlotRef slot);
  // Ends one hold. What the worker submitted up to its current step may still read
  // the slot. Errors: kAborted, the slot was reused since; kFailedPrecondition,
  // `worker` does not hold it.
  absl::Status Release(PoolWorker worker, SlotRef slot);
  // The bytes are complete: the caller knows that what wrote them has retired, or
  // shares them only behind it. Sealing twice is once. Errors: kAborted, as above.
  absl::Status Seal(SlotRef slot);
  // The cache holds the slot, whatever becomes of the workers. Errors: kAborted, as
  // above; kFailedPrecondition, not sealed; kAlreadyExists, kept already.
  absl::Status Keep(SlotRef slot);
  // The cache lets go of it. Errors: kAborted, as above; kFailedPrecondition, not kept.
  absl::Status Drop(SlotRef slot);

  // Errors: kInvalidArgument, `step` is not past the one that began last. The first
  // step is 1 or later.
  absl::Status Begin(PoolWorker worker, uint64_t step);
  // Everything up to `step` has ended; an older step than the last retired says
  // nothing new. Errors: kInvalidArgument, `step` has not begun.
  absl::Status Retire(PoolWorker worker, uint64_t step);
  // The worker is dead and its context torn down, so that nothing of it runs: its
  // holds end, its steps are retired and count from 1 again for the next of this
  // number. What the cache keeps, or others hold, stays. O(slots).
  void Crash(PoolWorker worker);

  // The pool grew: `slots` more at the end, free. Of a place that was cut off before, older
  // names stay stale. REQUIRES: none are closed.
  void Grow(uint32_t slots);
  // The pool is to shrink: from now on no slot from `first` on is handed out, until they
  // are cut off or opened again. O(slots).
  void CloseFrom(uint32_t first);
  void Reopen();
  bool closed() const { return closed_from_ < slots_.size(); }
  // The first closed slot; slots(): none is.
  size_t closed_from() const { return closed_from_; }
  // Closed slots that somebody still holds or reads.
  size_t closed_in_use() const { return slots_.size() - closed_from_ - closed_free_; }
  // Behind the last of them; closed_from(): there is none. O(closed slots).
  size_t closed_use_end() const;
  // The slots from `slots` on are gone. REQUIRES: closed_use_end() <= slots, and one is left.
  void CutTo(size_t slots);

  // kAborted when `slot` was reused or freed since, naming both generations.
  absl::Status Check(SlotRef slot) const;
  // REQUIRES of these: index < slots().
  SlotState state(uint32_t index) const;
  // As it is now. REQUIRES also: the slot is held.
  SlotRef Ref(uint32_t index) const { return {index, slots_[index].generation}; }
  // Of all workers, and the cache's.
  uint32_t holds(uint32_t index) const { return slots_[index].holds; }
  uint32_t holds(PoolWorker worker, uint32_t index) const { return UseOf(worker, index).holds; }
  // `worker` holds the slot, or its steps may still touch it.
  bool busy(PoolWorker worker, uint32_t index) const {
    const Use& use = UseOf(worker, index);
    return use.holds > 0 || use.linked;
  }
  bool sealed(uint32_t index) const { return slots_[index].sealed; }
  bool kept(uint32_t index) const { return slots_[index].kept; }
  // `worker`, which holds the slot, may write it in place: nobody else holds it, no
  // other worker's steps may still read it, and no byte of it was promised. The
  // worker's own steps are in order.
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
  // Held or draining.
  size_t used_slots() const { return slots_.size() - free_.size() - closed_free_; }
  // Aborts when an invariant of the header does not hold; O(slots * workers).
  void Audit() const;

 private:
  struct Slot {
    uint32_t generation = 1;
    uint32_t holds = 0;
    uint32_t readers = 0;  // Workers in whose list the slot is.
    bool sealed = false;
    bool kept = false;
  };
  // What one worker has to do with one slot. While steps that may read the slot have
  // not retired after its last hold, it is linked into the worker's list.
  struct Use {
    uint64_t step = 0;  // The last that may read the slot; of a linked one.
    uint32_t holds = 0;
    uint32_t before = 0;  // Neighbours in the list, by slot.
    uint32_t after = 0;
    bool linked = false;
  };
  struct Worker {
    uint64_t begun = 0;
    uint64_t retired = 0;
    uint32_t oldest = kNone;  // The list of uses, by step.
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
  // The use has ended: the steps that may read the slot are retired.
  void EndReading(PoolWorker worker, uint32_t index);
  // One hold less; the last one makes every name of the slot stale.
  void EndHold(uint32_t index);
  // Nobody has to do with the slot any more.
  void GiveBack(uint32_t index);

  std::vector<Slot> slots_;
  std::vector<Use> uses_;  // By slot, then worker.
  std::vector<Worker> workers_;
  std::vector<uint32_t> free_;  // LIFO: warmest first.
  size_t draining_ = 0;
  size_t closed_from_ = 0;  // slots_.size(): none are closed.
  size_t closed_free_ = 0;
  uint32_t first_generation_ = 1;  // Of slots to come: beyond all that were cut off.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_SLOT_TABLE_H_
