#include "agent/index/pin.h"

#include "core/check.h"

namespace kvtier {

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Release();
    home_ = std::exchange(other.home_, nullptr);
    block_ = other.block_;
    member_ = other.member_;
  }
  return *this;
}

void Pin::Release() {
  if (home_ != nullptr) std::exchange(home_, nullptr)->Unpin(block_, member_);
}

Tier Pin::tier() const { return home_->tier(); }

Pin Pin::Again() const { return *AgainFor(member_); }

std::optional<Pin> Pin::AgainFor(std::optional<DomainId> member) const {
  return home_->TakeFor(block_, member);
}

std::optional<Pin> PinHome::TakeFor(ResidentBlock* block, std::optional<DomainId> member) {
  if (member.has_value() && !Charge(*block, *member)) return std::nullopt;
  if (block->pins++ == 0) {
    pinned_bytes_ += block->meta.length;
    Hold(block);
  }
  return Pin(this, block, member);
}

void PinHome::Unpin(ResidentBlock* block, std::optional<DomainId> member) {
  KVT_CHECK(block->pins > 0);
  if (member.has_value()) Uncharge(*block, *member);
  if (--block->pins > 0) return;
  pinned_bytes_ -= block->meta.length;
  Unhold(block);
}

}  // namespace kvtier
