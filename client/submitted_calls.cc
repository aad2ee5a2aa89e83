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

void SubmittedCalls::Launch(std::unique_ptr<Flight> flight) {
  const absl::MutexLock lock(&mu_);
  if (!queue_) {
    queue_.emplace();
    sender_ = std::thread([this, queue = &*queue_] { SendAll(queue); });
    ender_ = std::thread([this, queue = &*queue_] { EndAll(queue); });
  }
  flying_.insert(flight.get());
  unsent_.push_back(flight.release());
}

void SubmittedCalls::CancelAndWait() {
  absl::MutexLock lock(&mu_);
  for (Flight* flight : flying_) flight->Cancel();
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return booked_ == 0 && !landing_; };
  mu_.Await(absl::Condition(&none));
}

void SubmittedCalls::SendAll(grpc::CompletionQueue* queue) {
  BecomeBackgroundThread("kvtier-sends");
  const auto due = [this]()
                       ABSL_SHARED_LOCKS_REQUIRED(mu_) { return closing_ || !unsent_.empty(); };
  for (;;) {
    Flight* flight = nullptr;
    {
      const absl::MutexLock lock(&mu_, absl::Condition(&due));
      if (unsent_.empty()) return;
      flight = unsent_.front();
      unsent_.pop_front();
    }
    flight->Start(queue);
  }
}

void SubmittedCalls::EndAll(grpc::CompletionQueue* queue) {
  BecomeBackgroundThread("kvtier-calls");
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* const answered = static_cast<Flight*>(tag);
    if (!answered->Advance(ok)) continue;
    std::unique_ptr<Flight> flight(answered);
    {
      absl::MutexLock lock(&mu_);
      flying_.erase(flight.get());
      // The place is freed before the caller is told, so that the caller finds it free.
      KVT_CHECK(booked_ > 0);
      --booked_;
      landing_ = true;
    }
    flight->Land();
    flight.reset();
    absl::MutexLock lock(&mu_);
    landing_ = false;
  }
}

}  // namespace kvtier
