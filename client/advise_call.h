// AdviseCall tells the agent what the engine knows about the next use of blocks.
#ifndef KVTIER_CLIENT_ADVISE_CALL_H_
#define KVTIER_CLIENT_ADVISE_CALL_H_

#include <memory>
#include <span>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class AdviseCall {
 public:
  using Result = size_t;  // Named blocks in the node's memory.
  static constexpr char kName[] = "advise";

  AdviseCall(std::span<const KeySequence> sequences, absl::Duration timeout)
      : sequences_(sequences), asked_(AskedOf(sequences)) {
    messages.timeout = timeout;
  }
  bool Fill(const std::shared_ptr<Connection>& connection) {
    return FillSequences(*connection, sequences_, &messages.request, &asked_);
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Advise(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncAdvise(&messages.context, messages.request, queue);
  }
  size_t Finish(const std::shared_ptr<AgentLink>&, CallOutcome outcome) {
    return outcome == CallOutcome::kAnswered ? messages.response.advised_blocks() : 0;
  }

  Messages<v1::AdviseRequest, v1::AdviseResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ADVISE_CALL_H_
