#include "agent/index/pin.h"

#include "core/check.h"

namespace kvtier {

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Release();
    home_ = std::exchange(other.home_, nullptr);
    block_ = other.block_;
  }
  return *this;
}

void Pin::Release() {
  if (home_ != nullptr) std::exchange(home_, nullptr)->Unpin(block_);
}

Tier Pin::tier() const { return home_->tier(); }

Pin Pin::Again() const { return home_->Take(block_); }

Pin PinHome::Take(ResidentBlock* block) {
  if (block->pins++ == 0) {
    pinned_bytes_ += block->meta.length;
    Hold(block);
  }
  return Pin(this, block);
}

void PinHome::Unpin(ResidentBlock* block) {
  KVT_CHECK(block->pins > 0);
  if (--block->pins > 0) return;
  pinned_bytes_ -= block->meta.length;
  Unhold(block);
}

}  // namespace kvtier
