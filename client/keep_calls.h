// KeepCall keeps blocks in host memory for a time to live; ListKeptCall and EndKeptCall list and
// end such kept prefixes.
#ifndef KVTIER_CLIENT_KEEP_CALLS_H_
#define KVTIER_CLIENT_KEEP_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/call.h"
#include "client/kept_prefix.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class KeepCall {
 public:
  using Result = KeptPrefix;
  static constexpr char kName[] = "keep";

  KeepCall(std::span<const KeySequence> sequences, absl::Duration ttl, absl::Duration timeout);
  bool Fill(const std::shared_ptr<Connection>& connection) {
    return FillSequences(*connection, sequences_, &messages.request, &asked_);
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Keep(&messages.context, messages.request, &messages.response);
  }
  KeptPrefix Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::KeepRequest, v1::KeepResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
};

class ListKeptCall {
 public:
  using Result = KeptList;
  static constexpr char kName[] = "list_kept";

  explicit ListKeptCall(absl::Duration timeout) { messages.timeout = timeout; }
  bool Fill(const std::shared_ptr<Connection>& connection) {
    messages.request.set_session_token(connection->session()->token());
    return true;
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->ListKept(&messages.context, messages.request, &messages.response);
  }
  KeptList Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::ListKeptRequest, v1::ListKeptResponse> messages;
};

class EndKeptCall {
 public:
  using Result = std::optional<size_t>;  // Prefixes that ended; nullopt: no agent answered.
  static constexpr char kName[] = "end_kept";

  EndKeptCall(uint64_t id, absl::Duration timeout) {
    messages.timeout = timeout;
    messages.request.set_kept_id(id);
  }
  bool Fill(const std::shared_ptr<Connection>& connection) {
    messages.request.set_session_token(connection->session()->token());
    return true;
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->EndKept(&messages.context, messages.request, &messages.response);
  }
  Result Finish(const std::shared_ptr<AgentLink>&, CallOutcome outcome) {
    if (outcome != CallOutcome::kAnswered) return std::nullopt;
    return messages.response.ended_prefixes();
  }

  Messages<v1::EndKeptRequest, v1::EndKeptResponse> messages;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_KEEP_CALLS_H_
