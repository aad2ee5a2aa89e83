// ArenaPins keeps the host memory of the client's session pinned on a device: the memory of a new
// session from its start, and the memory of the old one until the last copy that uses it has ended.
//
// Pinning an arena takes about a second for each 10 GiB, so a thread of its own pins and unpins.
// The lanes' thread, which makes all other calls here, goes on with copies meanwhile.
#ifndef KVTIER_CLIENT_LANES_ARENA_PINS_H_
#define KVTIER_CLIENT_LANES_ARENA_PINS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/host_memory.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/thread_executor.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// PinnedArena is one session's host memory, pinned as long as the object lives. It pins the writing
// mapping, once for both directions: with both mappings the device would have two tables of all
// pages. The bytes of the reading mapping are there at the same offsets.
class PinnedArena {
 public:
  // Pins the memory. Errors: Device::Pin()'s. REQUIRES: both mappings are there.
  static absl::StatusOr<std::unique_ptr<const PinnedArena>> Pin(Device* device,
                                                                const HostMemory& memory);
  ~PinnedArena();
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  const HostMemory& memory() const { return memory_; }
  // Returns where these bytes of the reading mapping are pinned; null: they are outside of it.
  std::byte* Pinned(std::span<const std::byte> leased) const;

 private:
  PinnedArena(Device* device, HostMemory memory, std::span<std::byte> bytes);

  Device* const device_;
  const HostMemory memory_;
  const std::span<std::byte> bytes_;
};

class ArenaPins {
 public:
  // Takes the client and the device without owning them; `lanes` is the lanes' executor.
  ArenaPins(const Client* client, Device* device, Executor* lanes)
      : client_(client), device_(device), lanes_(lanes) {}

  // Returns the memory of the current session once it is pinned; null: there is no session, or it
  // hands out no memory. Errors: Device::Pin()'s, tried again by the next call;
  // kFailedPrecondition, the session stages, or its memory moves.
  using Arena = absl::StatusOr<std::shared_ptr<const PinnedArena>>;
  Task<Arena> Now();
  // Begins to pin ahead of need, and drops memory that no session has any more. Tries each
  // session's memory once.
  void Refresh();
  // Waits for a running pin, and begins no other; the lanes' executor still runs. Any thread.
  void Stop() { pinner_.Stop(); }
  // Unpins the memory. REQUIRES: Stop() was called, and the lanes' executor has stopped, too.
  void Unpin() { pinned_.reset(); }

 private:
  struct Pinning {
    Pinning(HostMemory of, Executor* lanes) : memory(std::move(of)), done(lanes) {}
    const HostMemory memory;
    Event done;
    Arena arena;  // The pinned memory, set when the pinning has ended.
  };
  // Returns the running pin, of whichever session; if there is none, begins one of `memory`.
  std::shared_ptr<Pinning> Begin(const HostMemory& memory);
  void Ended(const std::shared_ptr<Pinning>& pinning);

  const Client* const client_;
  Device* const device_;
  Executor* const lanes_;
  ThreadExecutor pinner_{"kv-pins"};
  std::shared_ptr<Pinning> pinning_;  // The running pinning; null: none is running.
  std::shared_ptr<const PinnedArena> pinned_;
  std::weak_ptr<const Mapping> tried_;  // Mapping that Refresh() tried last.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ARENA_PINS_H_
