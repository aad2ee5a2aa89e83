// StreamFlight is a submitted call on its way whose answer comes in several messages.
#ifndef KVTIER_CLIENT_STREAM_FLIGHT_H_
#define KVTIER_CLIENT_STREAM_FLIGHT_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "client/agent_link.h"
#include "client/call.h"
#include "client/call_deadline.h"
#include "client/submitted_calls.h"
#include "core/clock.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/status.h"
#include "proto/convert.h"

namespace kvtier {

// `CallType` is as call.h says, but that its Start() prepares an RPC with a stream of answers, of
// which TakePart() takes each from messages.response, and returns true for the last.
template <typename CallType>
class StreamFlight final : public SubmittedCalls::Flight {
 public:
  using Done = absl::AnyInvocable<void(typename CallType::Result)>;
  StreamFlight(std::shared_ptr<AgentLink> link, std::shared_ptr<Connection> connection,
               std::unique_ptr<CallType> call, Done done)
      : link_(std::move(link)),
        connection_(std::move(connection)),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Start(grpc::CompletionQueue* queue) override {
    SetTimeout(&call_->messages.context, AnswerTimeout(call_->messages.timeout));
    began_ = MonotonicClock().Now();
    reader_ = call_->Start(&connection_->stub(), queue);
    reader_->StartCall(static_cast<Flight*>(this));
  }
  bool Advance(bool ok) override {
    switch (awaited_) {
      case Awaited::kEnd:
        return true;
      case Awaited::kMessage:
        if (ok) is_whole_ = call_->TakePart(link_);
        break;
      case Awaited::kStart:
        break;
    }
    // Behind the last message nothing is read that could only fail.
    awaited_ = ok && !is_whole_ ? Awaited::kMessage : Awaited::kEnd;
    if (awaited_ == Awaited::kMessage) {
      reader_->Read(&call_->messages.response, static_cast<Flight*>(this));
    } else {
      reader_->Finish(&status_, static_cast<Flight*>(this));
    }
    return false;
  }
  void Land() override {
    const CallEnd end = {.name = CallType::kName,
                         .timeout = AnswerTimeout(call_->messages.timeout),
                         .took = MonotonicClock().Now() - began_,
                         // Once all is said, nothing that befalls the call takes it back.
                         .status = is_whole_ ? absl::OkStatus() : EndOf(status_)};
    done_(call_->Finish(link_, link_->Ended(connection_, end)));
  }
  void Cancel() override { call_->messages.context.TryCancel(); }

 private:
  enum class Awaited { kStart, kMessage, kEnd };
  using Reader = decltype(std::declval<CallType>().Start(nullptr, nullptr));

  // Returns the status of a call that ended before its last message.
  static absl::Status EndOf(const grpc::Status& status) {
    if (!status.ok()) return convert::FromGrpc(status);
    return absl::DataLossError("the answer has no end");
  }

  const std::shared_ptr<AgentLink> link_;
  const std::shared_ptr<Connection> connection_;
  const std::unique_ptr<CallType> call_;
  Done done_;
  absl::Time began_;
  Reader reader_;
  Awaited awaited_ = Awaited::kStart;
  bool is_whole_ = false;  // The last message has come.
  grpc::Status status_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_STREAM_FLIGHT_H_
