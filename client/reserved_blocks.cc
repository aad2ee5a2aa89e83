#include "client/reserved_blocks.h"

#include <atomic>

#include "client/agent_link.h"
#include "client/block_copy.h"
#include "client/connection.h"
#include "core/check.h"

namespace kvtier {

ReservedBlocks& ReservedBlocks::operator=(ReservedBlocks&& other) noexcept {
  if (this == &other) return *this;
  Release();
  link_ = std::move(other.link_);
  connection_ = std::move(other.connection_);
  keep_ = std::move(other.keep_);
  answered_ = other.answered_;
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
  NoteUse(blocks_[i], SlotUse::kByWorker);
  return blocks_[i].slot;
}

uint64_t ReservedBlocks::offset(size_t i) const {
  KVT_CHECK(i < blocks_.size());
  NoteUse(blocks_[i], SlotUse::kByWorker);
  return blocks_[i].offset;
}

absl::Status ReservedBlocks::CopyIn(size_t i, std::span<const ConstPiece> pieces) {
  KVT_CHECK(i < blocks_.size());
  const absl::StatusOr<PayloadSum> sum = CopyIntoSlot(i, blocks_[i].slot, pieces);
  if (!sum.ok()) return sum.status();
  blocks_[i].copied = *sum;
  NoteUse(blocks_[i], SlotUse::kSummed);
  return absl::OkStatus();
}

void ReservedBlocks::NoteSum(size_t i, const PayloadSum& sum) {
  KVT_CHECK(i < blocks_.size() && !blocks_[i].slot.empty());
  ZeroTail(blocks_[i].slot);
  blocks_[i].copied = sum;
  NoteUse(blocks_[i], SlotUse::kSummed);
}

// Relaxed: the thread that commits has waited for the threads that write.
void ReservedBlocks::NoteUse(const Block& block, SlotUse use) {
  std::atomic_ref<SlotUse>(block.use).store(use, std::memory_order_relaxed);
}

void ReservedBlocks::GiveBack(size_t i) {
  KVT_CHECK(i < blocks_.size());
  Block& block = blocks_[i];
  if (!block.reservation_id) return;
  link_->Release(connection_.get(), ReleaseQueue::Kind::kReservation,
                 std::span<const uint64_t>(&*block.reservation_id, 1));
  std::erase(reservation_ids_, *block.reservation_id);
  block = {.state = State::kNoRoom};
}

void ReservedBlocks::Release() {
  if (link_ != nullptr) {
    link_->Release(connection_.get(), ReleaseQueue::Kind::kReservation, reservation_ids_);
  }
  ForgetSlots();
}

void ReservedBlocks::Forget(std::vector<Block>* blocks) {
  for (Block& block : *blocks) block = {.state = block.state};
}

void ReservedBlocks::ForgetSlots() {
  link_.reset();
  connection_.reset();
  keep_.reset();
  Forget(&blocks_);
  reservation_ids_.clear();
}

}  // namespace kvtier
