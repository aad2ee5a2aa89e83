// PrefetchCall asks for blocks to be brought to host memory, with nobody waiting.
#ifndef KVTIER_CLIENT_PREFETCH_CALL_H_
#define KVTIER_CLIENT_PREFETCH_CALL_H_

#include <memory>

#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class PrefetchCall {
 public:
  using Result = size_t;  // Blocks that are there or on their way.
  static constexpr char kName[] = "prefetch";

  PrefetchCall(SpaceHandle space, std::span<const EngineKey> keys, const MatchOptions& options,
               absl::Duration timeout)
      : space_(space), keys_(keys), local_only_(options.local_only) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection) {
    const auto space = connection->FindSpace(static_cast<size_t>(space_));
    if (!space || space->id == 0) return false;
    FillPrefix(*connection, *space, keys_, &messages.request);
    messages.request.set_local_only(local_only_);
    return true;
  }
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Prefetch(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncPrefetch(&messages.context, messages.request, queue);
  }
  size_t Finish(const std::shared_ptr<AgentLink>&, bool answered) {
    return answered ? messages.response.accepted_blocks() : 0;
  }

  Messages<v1::PrefetchRequest, v1::PrefetchResponse> messages;

 private:
  const SpaceHandle space_;
  const std::span<const EngineKey> keys_;  // The caller's; not used after Fill().
  const bool local_only_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PREFETCH_CALL_H_
