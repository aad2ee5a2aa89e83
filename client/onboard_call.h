// OnboardCall asks for blocks, leased and ready to read.
#ifndef KVTIER_CLIENT_ONBOARD_CALL_H_
#define KVTIER_CLIENT_ONBOARD_CALL_H_

#include <memory>
#include <span>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "client/onboard_question.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class OnboardCall {
 public:
  using Result = std::vector<OnboardedBlocks>;  // One entry for each sequence.
  static constexpr char kName[] = "onboard";

  OnboardCall(std::span<const KeySequence> sequences, const OnboardOptions& options,
              absl::Duration timeout)
      : question_(sequences, options) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection) {
    return question_.Fill(connection, messages.timeout, &messages.request);
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Onboard(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncOnboard(&messages.context, messages.request, queue);
  }
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::OnboardRequest, v1::OnboardResponse> messages;

 private:
  OnboardQuestion question_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_CALL_H_
