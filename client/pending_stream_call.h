// PendingStreamCall is a submitted call on its way whose answer comes in several messages.
#ifndef KVTIER_CLIENT_PENDING_STREAM_CALL_H_
#define KVTIER_CLIENT_PENDING_STREAM_CALL_H_

#include "absl/status/status.h"
#include "client/pending_call.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/status.h"
#include "proto/convert.h"

namespace kvtier {

// PendingStreamCall carries one call. Its `CallType` is as call.h says, but Start() prepares an RPC
// with a stream of answers; TakePart() takes each from messages.response, and returns true for the
// last.
template <typename CallType>
class PendingStreamCall final : public PendingCall<CallType> {
 public:
  using PendingCall<CallType>::PendingCall;

  void Start(grpc::CompletionQueue* queue) override {
    reader_ = this->Begin(queue);
    reader_->StartCall(this->tag());
  }
  bool Advance(bool ok) override {
    switch (awaited_) {
      case Awaited::kEnd:
        return true;
      case Awaited::kMessage:
        if (ok) is_whole_ = this->call().TakePart(this->link());
        break;
      case Awaited::kStart:
        break;
    }
    // After the last message nothing more is read, since a read could only fail.
    awaited_ = ok && !is_whole_ ? Awaited::kMessage : Awaited::kEnd;
    if (awaited_ == Awaited::kMessage) {
      reader_->Read(&this->call().messages.response, this->tag());
    } else {
      reader_->Finish(&status_, this->tag());
    }
    return false;
  }

 private:
  enum class Awaited { kStart, kMessage, kEnd };

  absl::Status Outcome() const override {
    // After the last message the call has succeeded, however the stream then ends.
    if (is_whole_) return absl::OkStatus();
    if (!status_.ok()) return convert::FromGrpc(status_);
    return absl::DataLossError("the agent's answer ended before it was whole; try again");
  }

  typename PendingCall<CallType>::Reader reader_;
  Awaited awaited_ = Awaited::kStart;
  bool is_whole_ = false;  // The last message has come.
  grpc::Status status_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PENDING_STREAM_CALL_H_
