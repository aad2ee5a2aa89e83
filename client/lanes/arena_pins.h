// ArenaPins keeps the host memory of the client's session pinned on a device: the memory
// of a new session as soon as there is one, that of the old one until the last copy that
// uses it has ended.
//
// The lanes' thread only.
#ifndef KVTIER_CLIENT_LANES_ARENA_PINS_H_
#define KVTIER_CLIENT_LANES_ARENA_PINS_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/host_memory.h"
#include "tier_gpu/device/device.h"

namespace kvtier {

// One session's host memory, pinned for as long as this lives. The mapping that is
// written is the one that is pinned, once for both directions: the device's addresses of
// the two would be two tables of all pages. What is read lies there at the same offset.
class PinnedArena {
 public:
  // Errors: Device::Pin()'s. REQUIRES: both mappings are there.
  static absl::StatusOr<std::shared_ptr<const PinnedArena>> Pin(Device* device,
                                                                const HostMemory& memory);
  ~PinnedArena();
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* base() const { return bytes_.data(); }
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
  // Neither is owned.
  ArenaPins(const Client* client, Device* device) : client_(client), device_(device) {}

  // Of the session of now; null: there is none, or it hands out no memory. Errors:
  // Device::Pin()'s, tried again by the next call; kFailedPrecondition, the session stages.
  absl::StatusOr<std::shared_ptr<const PinnedArena>> Now();
  // The same ahead of need, and lets go of what no session has any more. Tries each
  // session's memory once.
  void Refresh();
  void Drop() { pinned_.reset(); }

 private:
  const Client* const client_;
  Device* const device_;
  std::shared_ptr<const PinnedArena> pinned_;
  std::weak_ptr<const Mapping> tried_;  // By Refresh().
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ARENA_PINS_H_
