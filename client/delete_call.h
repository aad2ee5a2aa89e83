// DeleteCall drops blocks of the tenant from every tier of the node.
#ifndef KVTIER_CLIENT_DELETE_CALL_H_
#define KVTIER_CLIENT_DELETE_CALL_H_

#include <memory>
#include <span>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class DeleteCall {
 public:
  using Result = DeletedBlocks;
  static constexpr char kName[] = "delete";

  DeleteCall(std::span<const KeySequence> sequences, absl::Duration timeout)
      : sequences_(sequences), asked_(AskedOf(sequences)) {
    messages.timeout = timeout;
  }
  bool Fill(const std::shared_ptr<Connection>& connection) {
    return FillSequences(*connection, sequences_, &messages.request, &asked_);
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Delete(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncDelete(&messages.context, messages.request, queue);
  }
  DeletedBlocks Finish(const std::shared_ptr<AgentLink>&, CallOutcome outcome) {
    if (outcome != CallOutcome::kAnswered) return {};
    return {.answered = true,
            .deleted = messages.response.deleted_blocks(),
            .held = messages.response.held_blocks(),
            .more = messages.response.more()};
  }

  Messages<v1::DeleteRequest, v1::DeleteResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_DELETE_CALL_H_
