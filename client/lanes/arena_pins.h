// ArenaPins keeps the host memory of the client's session pinned on a device: the memory
// of a new session as soon as there is one, that of the old one until the last copy that
// uses it has ended.
//
// To pin an arena takes a second or so for each 10 GiB, so a thread of its own does that, and lets
// go of it; the lanes' thread, which calls everything else here, goes on with copies meanwhile.
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

// One session's host memory, pinned for as long as this lives. The mapping that is
// written is the one that is pinned, once for both directions: the device's addresses of
// the two would be two tables of all pages. What is read lies there at the same offset.
class PinnedArena {
 public:
  // Errors: Device::Pin()'s. REQUIRES: both mappings are there.
  static absl::StatusOr<std::unique_ptr<const PinnedArena>> Pin(Device* device,
                                                                const HostMemory& memory);
  ~PinnedArena();
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  const HostMemory& memory() const { return memory_; }
  // Where these bytes of the reading mapping are pinned; null: they are not of it.
  std::byte* Pinned(std::span<const std::byte> leased) const;

 private:
  PinnedArena(Device* device, HostMemory memory, std::span<std::byte> bytes);

  Device* const device_;
  const HostMemory memory_;
  const std::span<std::byte> bytes_;
};

class ArenaPins {
 public:
  // None is owned; `lanes` is the lanes' executor.
  ArenaPins(const Client* client, Device* device, Executor* lanes)
      : client_(client), device_(device), lanes_(lanes) {}

  // The memory of the current session, once it is pinned; null: there is none, or it hands out no
  // memory. Errors: Device::Pin()'s, tried again by the next call; kFailedPrecondition, the session
  // stages, or its memory moves.
  using Arena = absl::StatusOr<std::shared_ptr<const PinnedArena>>;
  Task<Arena> Now();
  // Begins to pin ahead of need, and lets go of what no session has any more. Tries each
  // session's memory once.
  void Refresh();
  // Waits for what is being pinned, and begins nothing more; the lanes' executor still runs. Any
  // thread.
  void Stop() { pinner_.Stop(); }
  // Lets go of what is pinned. REQUIRES: Stop(), and the lanes' executor has stopped, too.
  void Drop() { pinned_.reset(); }

 private:
  struct Pinning {
    Pinning(HostMemory of, Executor* lanes) : memory(std::move(of)), done(lanes) {}
    const HostMemory memory;
    Event done;
    Arena arena;  // Once it is done.
  };
  // The pinning that is under way, of whatever session; else one of `memory` begins.
  std::shared_ptr<Pinning> Begin(const HostMemory& memory);
  void Ended(const std::shared_ptr<Pinning>& pinning);

  const Client* const client_;
  Device* const device_;
  Executor* const lanes_;
  ThreadExecutor pinner_{"kv-pins"};
  std::shared_ptr<Pinning> pinning_;  // Null: none is under way.
  std::shared_ptr<const PinnedArena> pinned_;
  std::weak_ptr<const Mapping> tried_;  // By Refresh().
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ARENA_PINS_H_
