#include "client/granted_slots.h"

#include <utility>

#include "client/agent_link.h"
#include "client/connection.h"
#include "client/gpu_memory.h"
#include "client/mapping.h"

namespace kvtier {

GrantedSlots& GrantedSlots::operator=(GrantedSlots&& other) noexcept {
  if (this == &other) return *this;
  Release();
  link_ = std::move(other.link_);
  connection_ = std::move(other.connection_);
  memory_ = std::exchange(other.memory_, {});
  numbers_ = std::move(other.numbers_);
  space_ = other.space_;
  slot_bytes_ = other.slot_bytes_;
  block_bytes_ = other.block_bytes_;
  return *this;
}

std::span<std::byte> GrantedSlots::memory() const {
  const std::shared_ptr<const Mapping>& mapping = memory_.mapping();
  if (mapping == nullptr) return {};
  return mapping->Write(0, mapping->size()).value_or(std::span<std::byte>());
}

bool GrantedSlots::valid() const {
  return connection_ != nullptr && !connection_->session()->HasEnded();
}

std::shared_ptr<const StepPage> GrantedSlots::steps() const {
  if (connection_ == nullptr) return nullptr;
  const std::shared_ptr<const GpuMemory> pool = connection_->session()->gpu();
  return pool == nullptr ? nullptr : pool->steps;
}

void GrantedSlots::Release() {
  if (link_ == nullptr) return;
  const std::vector<uint64_t> ids(numbers_.begin(), numbers_.end());
  link_->Release(connection_.get(), ReleaseQueue::Kind::kSlot, ids);
  numbers_.clear();
  link_ = nullptr;
  connection_ = nullptr;
}

}  // namespace kvtier
