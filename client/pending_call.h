// PendingCall is a submitted call on its way, and PendingUnaryCall one whose answer is one message.
#ifndef KVTIER_CLIENT_PENDING_CALL_H_
#define KVTIER_CLIENT_PENDING_CALL_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent_link.h"
#include "client/call_deadline.h"
#include "client/connection.h"
#include "client/submitted_calls.h"
#include "core/clock.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/status.h"
#include "proto/convert.h"

namespace kvtier {

// PendingCall carries one call; call.h says what a `CallType` has.
template <typename CallType>
class PendingCall : public SubmittedCalls::Call {
 public:
  using Done = absl::AnyInvocable<void(typename CallType::Result)>;
  PendingCall(std::shared_ptr<AgentLink> link, std::shared_ptr<Connection> connection,
              std::unique_ptr<CallType> call, Done done)
      : link_(std::move(link)),
        connection_(std::move(connection)),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Complete() final {
    const CallEnd end = {.name = CallType::kName,
                         .timeout = AnswerTimeout(call_->messages.timeout),
                         .took = MonotonicClock().Now() - began_,
                         .status = Outcome()};
    done_(call_->Finish(link_, link_->Ended(connection_, end)));
  }
  void Cancel() final { call_->messages.context.TryCancel(); }

 protected:
  using Reader = decltype(std::declval<CallType>().Start(nullptr, nullptr));

  // Prepares or begins the RPC, as CallType::Start() does. Called once.
  Reader Begin(grpc::CompletionQueue* queue) {
    SetTimeout(&call_->messages.context, AnswerTimeout(call_->messages.timeout));
    began_ = MonotonicClock().Now();
    return call_->Start(&connection_->stub(), queue);
  }
  // Returns the tag that the queue answers.
  Call* tag() { return this; }
  CallType& call() { return *call_; }
  const std::shared_ptr<AgentLink>& link() const { return link_; }

 private:
  // Returns how the call ended, once it has.
  virtual absl::Status Outcome() const = 0;

  const std::shared_ptr<AgentLink> link_;
  const std::shared_ptr<Connection> connection_;
  const std::unique_ptr<CallType> call_;
  Done done_;
  absl::Time began_;
};

template <typename CallType>
class PendingUnaryCall final : public PendingCall<CallType> {
 public:
  using PendingCall<CallType>::PendingCall;

  void Start(grpc::CompletionQueue* queue) override {
    reader_ = this->Begin(queue);
    reader_->Finish(&this->call().messages.response, &status_, this->tag());
  }
  bool Advance(bool /*ok*/) override { return true; }

 private:
  absl::Status Outcome() const override { return convert::FromGrpc(status_); }

  typename PendingCall<CallType>::Reader reader_;
  grpc::Status status_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PENDING_CALL_H_
