#include "agent/offload.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/checksum.h"
#include "core/log.h"

namespace kvtier {

void Offloader::Offer(const BlockKey& key) {
  if (queue_.size() >= kMaxOffloadQueued) {
    ++stats_->offload_declined;
    return;
  }
  queue_.push_back(key);
  Pump();
}

void Offloader::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (running_ < kMaxOffloadsRunning + disks_->stuck().puts && !queue_.empty()) {
    const BlockKey key = queue_.front();
    queue_.pop_front();
    ++running_;
    scope_->Spawn(Run(key));
  }
  pumping_ = false;
}

Task<void> Offloader::Run(BlockKey key) {
  co_await WriteOne(key);
  --running_;
  Pump();
}

Task<void> Offloader::WriteOne(BlockKey key) {
  std::optional<Pin> pin = index_->PinIn(Tier::kHost, key);
  if (!pin.has_value() || index_->In(Tier::kDisk, key)) co_return;  // Evicted, or written.
  const BlockMeta meta = index_->Find(key)->meta;
  const std::span<const std::byte> slot = index_->Find(key)->host.bytes();

  // Workers may write the arena: a block that changed after commit stops here.
  bool altered = false;
  ByteWorkers::Work verify = [&] { altered = SumPayload(slot.first(meta.length)) != meta.sum; };
  co_await workers_->Run(std::move(verify));
  if (altered) {
    ++stats_->altered_blocks;
    Log(LogLevel::kError, absl::StrCat("block ", key.ToHex(),
                                       " changed in host memory after its commit: not written"));
    co_return;
  }

  const std::string tenant = tenants_->OfDomain(index_->Find(key)->host.domain()).name;
  const absl::Status written = co_await disks_->Put(meta, slot, tenant);
  if (!written.ok()) ++stats_->offload_declined;
}

}  // namespace kvtier
