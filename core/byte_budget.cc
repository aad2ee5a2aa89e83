#include "core/byte_budget.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Reservation::Release() {
  if (budget_ == nullptr) return;
  KVT_CHECK(bytes_ <= budget_->used_);
  budget_->used_ -= bytes_;
  budget_ = nullptr;
  bytes_ = 0;
}

absl::StatusOr<Reservation> ByteBudget::Reserve(uint64_t bytes) {
  // The test avoids used_ + bytes, which may wrap.
  if (bytes > capacity_ - used_) {
    return absl::ResourceExhaustedError(absl::StrCat("no room to reserve ", bytes,
                                                     " bytes: ", used_, " of ", capacity_,
                                                     " are used; release some"));
  }
  used_ += bytes;
  return Reservation(this, bytes);
}

}  // namespace kvtier
