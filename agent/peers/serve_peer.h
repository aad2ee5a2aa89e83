// PeerServer answers other agents: it holds a block in place, proves what it is, and shows its
// bytes. It shows a block of host memory in place, and a block on disk in one of a bounded number
// of private buffers, so that another node's misses do not evict this node's blocks. It serves
// what is named with the key of a tenant that is admitted here (PeerNamer), and of that tenant
// alone. The tenants whose blocks are asked for divide the streams (StreamShares), and so what the
// streams read from disk.
//
// Executor thread only; a ServedBlock must be destroyed there too.
#ifndef KVTIER_AGENT_PEERS_SERVE_PEER_H_
#define KVTIER_AGENT_PEERS_SERVE_PEER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/index/block_index.h"
#include "agent/index/host_prover.h"
#include "agent/limits.h"
#include "agent/peers/stream_shares.h"
#include "agent/tenants.h"
#include "core/block_proof.h"
#include "core/peer_name.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// AlignedBuffer is memory outside the arena, aligned to 4 KiB. It may be destroyed on any thread.
class AlignedBuffer {
 public:
  // Allocates a buffer, which is counted in `in_use` as long as it lives. REQUIRES: `bytes` is a
  // positive multiple of 4096.
  AlignedBuffer(size_t bytes, std::shared_ptr<std::atomic<size_t>> in_use);
  ~AlignedBuffer() { in_use_->fetch_sub(size_, std::memory_order_relaxed); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Freer {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const std::shared_ptr<std::atomic<size_t>> in_use_;
  const std::unique_ptr<std::byte, Freer> bytes_;
  const size_t size_;
};

// ServedBlock holds one block in place for a peer. Move-only.
struct ServedBlock {
  BlockProof proof;
  std::span<const std::byte> payload;
  Pin pin;                                // Pin of a host block.
  std::shared_ptr<AlignedBuffer> buffer;  // Bytes of a block read from disk.
};

class PeerServer {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    BlockIndex* index = nullptr;
    DiskSet* disks = nullptr;  // Disks of the node; null: none.
    HostProver* prover = nullptr;
    AgentStats* stats = nullptr;
  };
  // `max_buffer_bytes` bounds the buffers of blocks from disk that are being read or sent.
  PeerServer(const Parts& parts, size_t max_buffer_bytes)
      : executor_(parts.executor),
        scope_(parts.scope),
        waits_(parts.waits),
        tenants_(parts.tenants),
        index_(parts.index),
        disks_(parts.disks),
        prover_(parts.prover),
        stats_(parts.stats),
        max_buffer_bytes_(max_buffer_bytes) {}

  // Stream of blocks of one tenant.
  struct Stream {
    DomainId domain{};
    std::vector<BlockKey> keys;  // Blocks that are asked for, in the order of their names.
  };
  // Counts a new stream, for EndStream(); nullopt: this node does not serve the tag's tenant, or
  // has none of the blocks, and nothing is counted. Errors: kAborted, all kMaxPeerStreamsServed are
  // in use, or those that are free are kept for other tenants.
  absl::StatusOr<std::optional<Stream>> BeginStream(PeerTag tag, std::span<const PeerName> names);
  void EndStream(DomainId domain) { streams_.GiveBack(domain); }
  // Holds a block of the domain for a peer; ends by `deadline`. While disk reads for peers, or
  // their buffers, are at their bound, reads wait in the order in which they came. nullopt: the
  // block is not here, is another tenant's, or is not readable in time.
  Task<std::optional<ServedBlock>> Serve(DomainId domain, BlockKey key, absl::Time deadline);

 private:
  struct DiskRead;
  // Returns whether the block is here and is the domain's. Whoever has one tenant's secret can make
  // names that lead to the BlockKeys of another.
  bool Has(DomainId domain, const BlockKey& key) const;
  BlockProof ProofOf(DomainId domain, const BlockMeta& meta) const {
    return tenants_->OfDomain(domain).peer_namer->Prove(meta);
  }
  bool MayRead(uint64_t bytes) const;
  // Waits until a read of so many bytes may begin; returns false if `deadline` came first.
  Task<bool> AwaitRead(uint64_t bytes, absl::Time deadline);
  std::optional<ServedBlock> ServeFromHost(const BlockKey& key);
  Task<void> ReadFromDisk(BlockKey key, std::shared_ptr<DiskRead> read);

  Executor* const executor_;
  TaskScope* const scope_;
  Waits* const waits_;
  const TenantTable* const tenants_;
  BlockIndex* const index_;
  DiskSet* const disks_;
  HostProver* const prover_;
  AgentStats* const stats_;
  const size_t max_buffer_bytes_;
  StreamShares streams_{kMaxPeerStreamsServed};
  size_t disk_reads_ = 0;
  // Reads that wait to begin, by number: one of each stream at most.
  std::set<uint64_t> reads_waiting_;
  uint64_t reads_asked_ = 0;
  // Bytes of all buffers that live, sent ones included. Buffers may outlive the server. A counter
  // only, so relaxed.
  const std::shared_ptr<std::atomic<size_t>> buffer_bytes_ =
      std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_SERVE_PEER_H_
