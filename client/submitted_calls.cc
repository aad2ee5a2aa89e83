#include "client/submitted_calls.h"

#include <utility>

#include "client/background_thread.h"
#include "core/check.h"

namespace kvtier {

SubmittedCalls::~SubmittedCalls() {
  absl::ReleasableMutexLock lock(&mu_);
  KVT_CHECK(booked_ == 0);
  if (!queue_) return;
  closing_ = true;
  std::thread sender = std::move(sender_);
  std::thread ender = std::move(ender_);
  lock.Release();
  sender.join();
  queue_->Shutdown();
  ender.join();  // The thread drains the queue first.
}

bool SubmittedCalls::Book() {
  absl::MutexLock lock(&mu_);
  if (booked_ == limit_) return false;
  ++booked_;
  return true;
}

void SubmittedCalls::Unbook() {
  absl::MutexLock lock(&mu_);
  KVT_CHECK(booked_ > 0);
  --booked_;
}

void SubmittedCalls::Launch(std::unique_ptr<Call> call) {
  const absl::MutexLock lock(&mu_);
  if (!queue_) {
    queue_.emplace();
    sender_ = std::thread([this, queue = &*queue_] { SendAll(queue); });
    ender_ = std::thread([this, queue = &*queue_] { EndAll(queue); });
  }
  launched_.insert(call.get());
  unsent_.push_back(call.release());
}

void SubmittedCalls::CancelAndWait() {
  absl::MutexLock lock(&mu_);
  for (Call* call : launched_) call->Cancel();
  const auto none = [this]()
                        ABSL_SHARED_LOCKS_REQUIRED(mu_) { return booked_ == 0 && !completing_; };
  mu_.Await(absl::Condition(&none));
}

void SubmittedCalls::SendAll(grpc::CompletionQueue* queue) {
  BecomeBackgroundThread("kvtier-sends");
  const auto due = [this]()
                       ABSL_SHARED_LOCKS_REQUIRED(mu_) { return closing_ || !unsent_.empty(); };
  for (;;) {
    Call* call = nullptr;
    {
      const absl::MutexLock lock(&mu_, absl::Condition(&due));
      if (unsent_.empty()) return;
      call = unsent_.front();
      unsent_.pop_front();
    }
    call->Start(queue);
  }
}

void SubmittedCalls::EndAll(grpc::CompletionQueue* queue) {
  BecomeBackgroundThread("kvtier-calls");
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* const answered = static_cast<Call*>(tag);
    if (!answered->Advance(ok)) continue;
    std::unique_ptr<Call> call(answered);
    {
      absl::MutexLock lock(&mu_);
      launched_.erase(call.get());
      // The place is freed before the caller is told, so that the caller finds it free.
      KVT_CHECK(booked_ > 0);
      --booked_;
      completing_ = true;
    }
    call->Complete();
    call.reset();
    absl::MutexLock lock(&mu_);
    completing_ = false;
  }
}

}  // namespace kvtier
