#include "agent/peers/serve_peer.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/event.h"
#include "core/space.h"

namespace kvtier {

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

bool PeerServer::Has(DomainId domain, const BlockKey& key) const {
  if (const HostBlock* const block = index_->Find(key)) return block->slot.domain() == domain;
  if (disks_ == nullptr) return false;
  const std::optional<TenantTag> owner = disks_->OwnerOf(key);
  return owner.has_value() && tenants_->DomainOf(*owner) == domain;
}

absl::StatusOr<std::optional<PeerServer::Stream>> PeerServer::BeginStream(
    PeerTag tag, std::span<const PeerName> names) {
  const Tenant* const tenant = tenants_->FindServed(tag);
  if (tenant == nullptr) return std::nullopt;
  const DomainId domain = tenant->domain;
  Stream stream{.domain = domain, .keys = tenant->peer_namer->KeysOf(names)};
  if (std::ranges::none_of(stream.keys, [&](const BlockKey& key) { return Has(domain, key); })) {
    return std::nullopt;
  }
  if (streams_.taken() == streams_.limit()) {
    return absl::AbortedError(absl::StrCat("peer streams: all ", streams_.limit(),
                                           " of this node are in use; ask again later"));
  }
  if (streams_.FreeFor(domain, tenants_->size()) == 0) {
    return absl::AbortedError(absl::StrCat(
        "peer streams: the tenant has ", streams_.Taken(domain), " of the ", streams_.limit(),
        " of this node, and the free ones are kept for other tenants; ask again later"));
  }
  streams_.Take(domain);
  return stream;
}

Task<std::optional<ServedBlock>> PeerServer::Serve(DomainId domain, BlockKey key,
                                                   absl::Time deadline) {
  if (!Has(domain, key)) co_return std::nullopt;
  // Workers may write the arena, and a peer would take us for one that sends wrong bytes.
  const bool whole = co_await prover_->Prove(key);
  std::optional<ServedBlock> served;
  if (whole) served = ServeFromHost(key);
  if (served.has_value() || disks_ == nullptr) co_return served;
  const std::optional<DiskBlock> block = disks_->Find(key);
  if (!block.has_value()) co_return std::nullopt;
  const bool may_read = co_await AwaitRead(SlotBytes(block->length), deadline);
  if (!may_read) co_return std::nullopt;
  const auto read = std::make_shared<DiskRead>(
      executor_, std::make_shared<AlignedBuffer>(SlotBytes(block->length), buffer_bytes_));
  scope_->Spawn(ReadFromDisk(key, read));
  const bool done = co_await waits_->Until(&read->done, deadline);
  if (!done || !read->meta.ok()) co_return std::nullopt;
  const BlockMeta& meta = *read->meta;
  ++stats_->peers.served_blocks;
  stats_->peers.served_bytes += meta.length;
  co_return ServedBlock{.proof = ProofOf(domain, meta),
                        .payload = read->buffer->bytes().first(meta.length),
                        .buffer = read->buffer};
}

// Returns whether a read of so many bytes may begin. One block always fits, whatever its size.
bool PeerServer::MayRead(uint64_t bytes) const {
  if (disk_reads_ >= kMaxPeerDiskReads + disks_->stuck().gets) return false;
  const size_t taken = buffer_bytes_->load(std::memory_order_relaxed);
  return taken == 0 || taken + bytes <= max_buffer_bytes_;
}

Task<bool> PeerServer::AwaitRead(uint64_t bytes, absl::Time deadline) {
  const uint64_t number = ++reads_asked_;
  reads_waiting_.insert(number);
  // A buffer may be freed on any thread, so the one in front looks again and again.
  const auto may_read = [&] { return *reads_waiting_.begin() == number && MayRead(bytes); };
  bool may = may_read();
  while (!may && executor_->Now() < deadline && !waits_->ended()) {
    const absl::Time again = executor_->Now() + kPeerReadInterval;
    co_await SleepUntil(executor_, std::min(again, deadline));
    may = may_read();
  }
  reads_waiting_.erase(number);
  co_return may;
}

std::optional<ServedBlock> PeerServer::ServeFromHost(const BlockKey& key) {
  std::optional<Pin> pin = index_->PinOf(key);
  if (!pin.has_value()) return std::nullopt;
  const HostBlock& block = *index_->Find(key);
  ++stats_->peers.served_blocks;
  stats_->peers.served_bytes += block.meta.length;
  return ServedBlock{.proof = ProofOf(block.slot.domain(), block.meta),
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
