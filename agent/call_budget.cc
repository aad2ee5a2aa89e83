#include "agent/call_budget.h"

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

absl::Status CallBudget::Begin(Share* share, size_t bytes) {
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mu_);
  if (bytes_ + bytes > limits_.bytes) {
    for (Share* const other : calls_) {
      if (now - other->began_ < limits_.duration) break;
      other->Cut();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("calls: those under way take ", bytes_, " bytes, and this one of ", bytes,
                     " is beyond the ", limits_.bytes, " that there are"));
  }
  bytes_ += bytes;
  share->budget_ = this;
  share->bytes_ = bytes;
  share->began_ = now;
  share->position_ = calls_.insert(calls_.end(), share);
  return absl::OkStatus();
}

void CallBudget::Share::End() {
  if (budget_ != nullptr) budget_->End(this);
}

void CallBudget::End(Share* share) {
  absl::MutexLock lock(&mu_);
  bytes_ -= share->bytes_;
  calls_.erase(share->position_);
}

}  // namespace kvtier
