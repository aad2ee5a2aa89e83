#include "client/reserved_blocks.h"

#include "client/agent_link.h"
#include "client/connection.h"
#include "core/check.h"

namespace kvtier {

ReservedBlocks& ReservedBlocks::operator=(ReservedBlocks&& other) noexcept {
  if (this == &other) return *this;
  Release();
  link_ = std::move(other.link_);
  connection_ = std::move(other.connection_);
  mapping_ = std::move(other.mapping_);
  blocks_ = std::exchange(other.blocks_, {});
  reservation_ids_ = std::exchange(other.reservation_ids_, {});
  commit_timeout_ = other.commit_timeout_;
  return *this;
}

ReservedBlocks::State ReservedBlocks::state(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].state;
}

std::span<std::byte> ReservedBlocks::slot(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  return blocks_[i].slot;
}

void ReservedBlocks::GiveBack(size_t i) {
  KVT_CHECK(i < blocks_.size());
  Block& block = blocks_[i];
  if (block.slot.empty()) return;
  link_->Release(connection_.get(), ReleaseQueue::Kind::kReservation,
                 std::span<const uint64_t>(&block.reservation_id, 1));
  std::erase(reservation_ids_, block.reservation_id);
  block = {.state = State::kNoRoom};
}

void ReservedBlocks::Release() {
  if (link_ != nullptr) {
    link_->Release(connection_.get(), ReleaseQueue::Kind::kReservation, reservation_ids_);
  }
  ForgetSlots();
}

void ReservedBlocks::ForgetSlots() {
  link_.reset();
  connection_.reset();
  mapping_.reset();
  for (Block& block : blocks_) block.slot = {};
  reservation_ids_.clear();
}

}  // namespace kvtier
