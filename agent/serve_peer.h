// PeerServer answers other agents: it holds a block still, proves what it is, and
// shows its bytes. From host memory in place; from disk through a bounded number of
// private buffers, so that another node's misses do not evict this node's blocks.
//
// Executor thread only; a ServedBlock must be destroyed there too.
#ifndef KVTIER_AGENT_SERVE_PEER_H_
#define KVTIER_AGENT_SERVE_PEER_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "core/block_proof.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// 4 KiB aligned memory outside the arena.
class AlignedBuffer {
 public:
  // REQUIRES: `bytes` is a positive multiple of 4096.
  explicit AlignedBuffer(size_t bytes);
  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Freer {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Freer> bytes_;
  size_t size_;
};

// One block held still for a peer. Move-only.
struct ServedBlock {
  BlockProof proof;
  std::span<const std::byte> payload;
  Pin pin;                                // Of a host block.
  std::shared_ptr<AlignedBuffer> buffer;  // Of a block read from disk.
};

class PeerServer {
 public:
  // Does not own; `disks` may be null.
  PeerServer(Executor* executor, TaskScope* scope, Waits* waits, BlockIndex* index, DiskSet* disks,
             AgentStats* stats)
      : executor_(executor),
        scope_(scope),
        waits_(waits),
        index_(index),
        disks_(disks),
        stats_(stats) {}

  // Ends by `deadline`. nullopt: not here, not readable in time, or too many disk
  // reads for peers are running.
  Task<std::optional<ServedBlock>> Serve(BlockKey key, absl::Time deadline);

 private:
  struct DiskRead;
  std::optional<ServedBlock> ServeFromHost(const BlockKey& key);
  Task<void> ReadFromDisk(BlockKey key, std::shared_ptr<DiskRead> read);

  Executor* const executor_;
  TaskScope* const scope_;
  Waits* const waits_;
  BlockIndex* const index_;
  DiskSet* const disks_;
  AgentStats* const stats_;
  size_t disk_reads_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVE_PEER_H_
