#include "agent/services/call_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"

namespace kvtier {

size_t CallBudget::MemoryOf(const google::protobuf::MessageLite& request) {
  return kCallBytes + kCallBytesPerRequestByte * request.ByteSizeLong();
}

size_t CallBudget::bytes() const {
  absl::MutexLock lock(&mu_);
  return bytes_;
}

absl::Status CallBudget::Begin(Share* share, absl::string_view session_token) {
  absl::StatusOr<std::optional<DomainId>> tenant = std::nullopt;
  if (tenants_ != nullptr) tenant = tenants_->Take(session_token, share->bytes_);
  absl::MutexLock lock(&mu_);
  if (tenant.ok()) share->tenant_ = *tenant;
  const absl::Status begun = tenant.ok() ? Count(share) : tenant.status();
  if (!begun.ok()) CutLong(*share);
  return begun;
}

absl::Status CallBudget::Count(Share* share) {
  if (!share->tenant_.has_value()) {
    if (bytes_ + share->bytes_ > limits_.bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("calls: the calls in progress without a session take ", bytes_,
                       " bytes of memory, and this one of ", share->bytes_, " would exceed the ",
                       limits_.bytes, " that they may take; call again when some have ended"));
    }
    bytes_ += share->bytes_;
  }
  share->position_ = calls_.insert(calls_.end(), share);
  share->is_counted_ = true;
  return absl::OkStatus();
}

void CallBudget::CutLong(const Share& share) {
  for (Share* const other : calls_) {
    if (share.began_ - other->began_ < limits_.duration) break;
    other->Cut();
  }
}

void CallBudget::End(Share* share) {
  {
    absl::MutexLock lock(&mu_);
    if (!share->is_counted_) return;
    calls_.erase(share->position_);
    if (!share->tenant_.has_value()) bytes_ -= share->bytes_;
  }
  if (share->tenant_.has_value()) tenants_->GiveBack(*share->tenant_, share->bytes_);
}

}  // namespace kvtier
