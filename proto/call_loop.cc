#include "proto/call_loop.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/check.h"

namespace kvtier {

void PollQueuesApart() { KVT_CHECK(setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0) == 0); }

CallLoop::~CallLoop() { KVT_CHECK(!thread_.joinable()); }

void CallLoop::Start(const std::string& name) {
  KVT_CHECK(calls_ > 0);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

void CallLoop::Stop() {
  // An answer that begins on a queue that is shut down ends the process.
  no_calls_.WaitForNotification();
  queue_->Shutdown();
  thread_.join();
}

void CallLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->Happen(ok);
}

QueuedCall::QueuedCall(CallLoop* loop) : loop_(loop) {
  ++loop_->calls_;
  // Without it IsCancelled() would take an event out of the queue itself.
  context_.AsyncNotifyWhenDone(ended_.tag());
}

QueuedCall::~QueuedCall() {
  if (--loop_->calls_ == 0) loop_->no_calls_.Notify();
}

void QueuedCall::OnArrived(bool ok) {
  if (ok) {
    Arrive();
  } else {
    delete this;  // The server is shut down.
  }
}

void QueuedCall::OnAnswered(bool /*ok*/) {
  is_answered_ = true;
  DeleteIfOver();
}

void QueuedCall::OnEnded(bool /*ok*/) {
  is_ended_ = true;
  if (context_.IsCancelled()) OnCancel();
  DeleteIfOver();
}

void QueuedCall::DeleteIfOver() {
  if (is_answered_ && is_ended_) delete this;
}

}  // namespace kvtier
