#include "agent/services/call_budget.h"

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

absl::Status CallBudget::Begin(Share* share) {
  absl::MutexLock lock(&mu_);
  if (bytes_ + share->bytes_ > limits_.bytes) {
    for (Share* const other : calls_) {
      if (share->began_ - other->began_ < limits_.duration) break;
      other->Cut();
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("calls: those under way take ", bytes_, " bytes, and this one of ",
                     share->bytes_, " is beyond the ", limits_.bytes, " that there are"));
  }
  bytes_ += share->bytes_;
  share->position_ = calls_.insert(calls_.end(), share);
  share->is_counted_ = true;
  return absl::OkStatus();
}

void CallBudget::End(Share* share) {
  absl::MutexLock lock(&mu_);
  if (!share->is_counted_) return;
  bytes_ -= share->bytes_;
  calls_.erase(share->position_);
}

}  // namespace kvtier
