// PrefetchCall asks for blocks to be brought to host memory, with nobody waiting.
#ifndef KVTIER_CLIENT_PREFETCH_CALL_H_
#define KVTIER_CLIENT_PREFETCH_CALL_H_

#include <memory>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class PrefetchCall {
 public:
  using Result = size_t;  // Blocks that are there or on their way.
  static constexpr char kName[] = "prefetch";

  PrefetchCall(std::span<const KeySequence> sequences, const MatchOptions& options,
               absl::Duration timeout)
      : sequences_(sequences), asked_(AskedOf(sequences)), local_only_(options.local_only) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection) {
    messages.request.set_local_only(local_only_);
    return FillSequences(*connection, sequences_, &messages.request, &asked_);
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Prefetch(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncPrefetch(&messages.context, messages.request, queue);
  }
  size_t Finish(const std::shared_ptr<AgentLink>&, CallOutcome outcome) {
    return outcome == CallOutcome::kAnswered ? messages.response.accepted_blocks() : 0;
  }

  Messages<v1::PrefetchRequest, v1::PrefetchResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
  const bool local_only_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PREFETCH_CALL_H_
