// PoolLedger is what an agent writes down of its GPU pool in a file that it maps, so
// that a kill -9 leaves it in the page cache: which slots are free and which have a
// block of which sum, and whose processes map the pool. The next agent, handed the same
// memory by one of them, goes on with what the ledger says.
//
// The order of law 2: a block's bytes, then its entry, then the index; the other way
// round when it goes. A kill may fall between any two stores: an entry that is not whole
// is a slot that was handed out. A machine that stops loses the file's meaning, and the
// boot's name in it tells.
//
// Executor thread only, but Create() and Open().
#ifndef KVTIER_TIER_GPU_POOL_LEDGER_H_
#define KVTIER_TIER_GPU_POOL_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_proof.h"
#include "core/process_id.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {

// What an agent's pool must be, for a ledger from before to be of it.
struct PoolTerms {
  std::string tenant;  // Both of kMaxTermBytes at most.
  std::string device;
  RegionShape shape;
  uint64_t slot_bytes = 0;
  uint64_t pool_bytes = 0;  // That the operator asked for.
  friend bool operator==(const PoolTerms&, const PoolTerms&) = default;
};
inline constexpr size_t kMaxTermBytes = 127;

// A worker's signal page, by which it is known again: the memory's own number.
struct PageId {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend bool operator==(const PageId&, const PageId&) = default;
};
// Errors: kInvalidArgument, no descriptor.
absl::StatusOr<PageId> PageIdOf(int descriptor);

// Workers that can be written down: those of now, and of agents before that still live.
inline constexpr size_t kMaxLedgerWorkers = 64;

class PoolLedger {
 public:
  enum class SlotState : uint32_t { kFree = 0, kHandedOut = 1, kPublished = 2 };
  struct Slot {
    SlotState state = SlotState::kHandedOut;
    BlockMeta meta;  // When published.
  };
  struct Worker {
    size_t place = 0;
    ProcessId process;
    PageId page;
    // False: it was never given one, and may not even have the page.
    bool has_slots = true;
  };

  // Where it is, and what it is to be of.
  struct Place {
    std::string path;
    PoolTerms terms;
    ProcessScope scope;
  };

  // A new one at `path`, mode 0600, in place of what is there: all slots free, no workers,
  // a new incarnation. Errors: kUnavailable with the path and errno's text; its room is
  // taken now, so that no later store can fail.
  static absl::StatusOr<std::unique_ptr<PoolLedger>> Create(const Place& place);
  // The one that is there. Errors: kNotFound, there is none; kFailedPrecondition, of
  // another boot or of another pool, naming what differs; kDataLoss, it is damaged.
  static absl::StatusOr<std::unique_ptr<PoolLedger>> Open(const Place& place);
  ~PoolLedger();
  PoolLedger(const PoolLedger&) = delete;
  PoolLedger& operator=(const PoolLedger&) = delete;
  // The pool ends with this agent: nobody finds the ledger any more.
  void Discard();

  // Never 0; the same for as long as the pool is the same memory.
  uint64_t incarnation() const;
  const PoolTerms& terms() const { return place_.terms; }
  // The agent that wrote last; its number is 0 when it was of another PID namespace, as
  // the numbers of workers are.
  ProcessId agent() const;
  void SetAgent(const ProcessId& agent);

  // How many handles of memory and slots the pool has; the slots fit the handles.
  void Resize(size_t handles, size_t slots);
  size_t handles() const;
  size_t slots() const;
  // Those that have slots: a kill between two stores may leave one more.
  size_t handles_in_use() const;
  // REQUIRES of all below: slot < slots().
  Slot slot(size_t slot) const;
  void HandOut(size_t slot);
  void Free(size_t slot);
  // REQUIRES: handed out, or published as this block, by an agent before. The slot has
  // exactly these bytes.
  void Publish(size_t slot, const BlockMeta& meta);

  // A worker that may be given slots from now on; returns its place. Errors:
  // kResourceExhausted, all places are taken.
  absl::StatusOr<size_t> AddWorker(const ProcessId& process, const PageId& page);
  // Ahead of the first slot that it may touch. REQUIRES: it was added.
  void GiveSlots(size_t place);
  // Nothing of it touches the pool any more. REQUIRES: it was added.
  void RemoveWorker(size_t place);
  std::vector<Worker> Workers() const;
  // Sessions were handed slots that say nothing of their steps, so nobody can tell when
  // they are done: a pool that has any is not taken back.
  void SetSilentSessions(size_t sessions);
  size_t silent_sessions() const;

 private:
  struct Header;
  struct WorkerEntry;
  struct SlotEntry;
  PoolLedger(Place place, std::span<std::byte> bytes) : place_(std::move(place)), bytes_(bytes) {}
  static absl::StatusOr<std::unique_ptr<PoolLedger>> Map(const Place& place, int fd);
  static size_t FileBytes(const PoolTerms& terms);
  static Header HeaderOf(const Place& place, uint64_t incarnation);
  static const char* WhatDiffers(const Header& found, const Header& wanted);
  static uint64_t SumOf(const SlotEntry& entry);
  pid_t PidHere(uint64_t pid, uint64_t pid_namespace) const;
  Header& header() const;
  WorkerEntry& worker_entry(size_t place) const;
  SlotEntry& slot_entry(size_t slot) const;

  const Place place_;
  const std::span<std::byte> bytes_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_POOL_LEDGER_H_
