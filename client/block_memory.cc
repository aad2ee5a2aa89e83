#include "client/block_memory.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"

namespace kvtier {

BlockMemory BlockMemory::Arena(std::shared_ptr<const Mapping> arena) {
  BlockMemory memory;
  memory.mapping_ = std::move(arena);
  return memory;
}

BlockMemory BlockMemory::GpuPool(const std::shared_ptr<const Session>& session) {
  BlockMemory memory;
  const std::shared_ptr<const GpuMemory> pool = session->gpu();
  if (pool == nullptr) return memory;
  memory.session_ = session;
  memory.mapping_ = pool->mapping;
  if (pool->by_device) memory.pool_ = pool;
  return memory;
}

bool BlockMemory::Follow(uint64_t version, absl::Duration timeout) {
  if (session_ == nullptr) return true;
  const absl::Time deadline = MonotonicClock().Now() + std::min(timeout, kFollowTimeout);
  if (!session_->FollowPool(version, deadline).ok()) return false;
  if (pool_ != nullptr) pool_ = session_->gpu();
  return true;
}

bool BlockMemory::DeviceHolds(uint64_t offset, uint64_t length) const {
  const uint64_t bytes = pool_->handles.size() * pool_->handle_bytes;
  return offset <= bytes && length <= bytes - offset;
}

std::optional<std::span<const std::byte>> BlockMemory::Read(uint64_t offset,
                                                            uint64_t length) const {
  if (pool_ == nullptr) return mapping_->Read(offset, length);
  if (!DeviceHolds(offset, length)) return std::nullopt;
  return std::span<const std::byte>();
}

std::optional<std::span<std::byte>> BlockMemory::Write(uint64_t offset, uint64_t length) const {
  if (pool_ == nullptr) return mapping_->Write(offset, length);
  if (!DeviceHolds(offset, length)) return std::nullopt;
  return std::span<std::byte>();
}

std::shared_ptr<const void> BlockMemory::keep() const {
  if (pool_ != nullptr) return pool_;
  return mapping_;
}

}  // namespace kvtier
