// MatchCall asks where blocks are.
#ifndef KVTIER_CLIENT_MATCH_CALL_H_
#define KVTIER_CLIENT_MATCH_CALL_H_

#include <memory>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class MatchCall {
 public:
  using Result = std::vector<MatchedSequence>;  // One entry for each sequence.
  static constexpr char kName[] = "match";

  MatchCall(std::span<const KeySequence> sequences, const MatchOptions& options,
            absl::Duration timeout)
      : sequences_(sequences), asked_(AskedOf(sequences)), local_only_(options.local_only) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Match(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncMatch(&messages.context, messages.request, queue);
  }
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::MatchRequest, v1::MatchResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
  const bool local_only_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_MATCH_CALL_H_
