#include "agent/peers/serve_peer.h"

#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/event.h"
#include "core/space.h"

namespace kvtier {

namespace {

// Stands for the tenants that this node no longer has, of which a disk still has blocks.
constexpr DomainId kNobodys{UINT32_MAX};

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes, std::shared_ptr<std::atomic<size_t>> in_use)
    : in_use_(std::move(in_use)),
      bytes_(static_cast<std::byte*>(std::aligned_alloc(kBlockAlignment, bytes))),
      size_(bytes) {
  if (bytes_ == nullptr) throw std::bad_alloc();
  in_use_->fetch_add(bytes, std::memory_order_relaxed);
}

// DiskRead is the state of a disk read. It is shared, because the read may end after the peer's
// deadline.
struct PeerServer::DiskRead {
  DiskRead(Executor* executor, std::shared_ptr<AlignedBuffer> into)
      : buffer(std::move(into)), done(executor) {}
  const std::shared_ptr<AlignedBuffer> buffer;
  absl::StatusOr<BlockMeta> meta;
  Event done;
};

std::optional<DomainId> PeerServer::TenantOf(std::span<const BlockKey> keys) const {
  for (const BlockKey& key : keys) {
    if (const HostBlock* const block = index_->Find(key)) return block->slot.domain();
    if (disks_ == nullptr) continue;
    const std::optional<TenantTag> owner = disks_->OwnerOf(key);
    if (owner.has_value()) return tenants_->DomainOf(*owner).value_or(kNobodys);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<DomainId>> PeerServer::BeginStream(std::span<const BlockKey> keys) {
  const std::optional<DomainId> domain = TenantOf(keys);
  if (!domain.has_value()) return std::nullopt;
  if (streams_.taken() == streams_.limit()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("peer streams: all ", streams_.limit(),
                     " of this node are in use; ask another node, or again later"));
  }
  if (streams_.FreeFor(*domain, tenants_->size()) == 0) {
    return absl::AbortedError(absl::StrCat(
        "peer streams: the tenant has ", streams_.Taken(*domain), " of the ", streams_.limit(),
        " of this node, and the free ones are kept for other tenants; ask again later"));
  }
  streams_.Take(*domain);
  return domain;
}

Task<std::optional<ServedBlock>> PeerServer::Serve(BlockKey key, absl::Time deadline) {
  // Workers may write the arena, and a peer would take us for one that sends wrong bytes.
  const bool whole = co_await prover_->Prove(key);
  std::optional<ServedBlock> served;
  if (whole) served = ServeFromHost(key);
  if (served.has_value() || disks_ == nullptr ||
      disk_reads_ >= kMaxPeerDiskReads + disks_->stuck().gets) {
    co_return served;
  }
  const std::optional<DiskBlock> block = disks_->Find(key);
  if (!block.has_value() || !HasRoomFor(SlotBytes(block->length))) co_return std::nullopt;
  const auto read = std::make_shared<DiskRead>(
      executor_, std::make_shared<AlignedBuffer>(SlotBytes(block->length), buffer_bytes_));
  scope_->Spawn(ReadFromDisk(key, read));
  const bool done = co_await waits_->Until(&read->done, deadline);
  if (!done || !read->meta.ok()) co_return std::nullopt;
  const BlockMeta& meta = *read->meta;
  ++stats_->peers.served_blocks;
  stats_->peers.served_bytes += meta.length;
  co_return ServedBlock{.proof = ProofOf(meta),
                        .payload = read->buffer->bytes().first(meta.length),
                        .buffer = read->buffer};
}

// Returns whether `bytes` more fit. One block always fits, whatever its size.
bool PeerServer::HasRoomFor(uint64_t bytes) const {
  const size_t taken = buffer_bytes_->load(std::memory_order_relaxed);
  return taken == 0 || taken + bytes <= max_buffer_bytes_;
}

std::optional<ServedBlock> PeerServer::ServeFromHost(const BlockKey& key) {
  std::optional<Pin> pin = index_->PinOf(key);
  if (!pin.has_value()) return std::nullopt;
  const HostBlock& block = *index_->Find(key);
  ++stats_->peers.served_blocks;
  stats_->peers.served_bytes += block.meta.length;
  return ServedBlock{.proof = ProofOf(block.meta),
                     .payload = block.slot.bytes().first(block.meta.length),
                     .pin = *std::move(pin)};
}

Task<void> PeerServer::ReadFromDisk(BlockKey key, std::shared_ptr<DiskRead> read) {
  ++disk_reads_;
  read->meta = co_await disks_->Get(key, read->buffer->bytes());
  --disk_reads_;
  read->done.Set();
}

}  // namespace kvtier
