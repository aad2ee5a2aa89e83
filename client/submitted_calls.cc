#include "client/submitted_calls.h"

#include <pthread.h>

#include <utility>

#include "core/check.h"

namespace kvtier {

SubmittedCalls::~SubmittedCalls() {
  absl::ReleasableMutexLock lock(&mu_);
  KVT_CHECK(booked_ == 0);
  if (!queue_) return;
  queue_->Shutdown();
  std::thread thread = std::move(thread_);
  lock.Release();
  thread.join();  // It drains the queue.
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
  // Under the lock, so that none is cancelled before it has started. Start() calls
  // nobody back on this thread.
  absl::MutexLock lock(&mu_);
  if (!queue_) {
    queue_.emplace();
    thread_ = std::thread([this, queue = &*queue_] { Run(queue); });
    pthread_setname_np(thread_.native_handle(), "kvtier-calls");
  }
  flying_.insert(flight.get());
  flight.release()->Start(&*queue_);
}

void SubmittedCalls::CancelAndWait() {
  absl::MutexLock lock(&mu_);
  for (Flight* flight : flying_) flight->Cancel();
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return booked_ == 0 && !landing_; };
  mu_.Await(absl::Condition(&none));
}

void SubmittedCalls::Run(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    auto* const answered = static_cast<Flight*>(tag);
    if (!answered->Advance(ok)) continue;
    std::unique_ptr<Flight> flight(answered);
    {
      absl::MutexLock lock(&mu_);
      flying_.erase(flight.get());
      // Its caller, once told, finds the place free.
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
