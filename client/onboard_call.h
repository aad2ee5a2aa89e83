// OnboardCall asks for the longest run of blocks, leased and ready to read.
#ifndef KVTIER_CLIENT_ONBOARD_CALL_H_
#define KVTIER_CLIENT_ONBOARD_CALL_H_

#include <memory>

#include "client/block_memory.h"
#include "client/call.h"
#include "client/client.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class OnboardCall {
 public:
  using Result = OnboardedBlocks;
  static constexpr char kName[] = "onboard";

  OnboardCall(SpaceHandle space, std::span<const EngineKey> keys, const OnboardOptions& options,
              absl::Duration timeout)
      : space_(space), keys_(keys), target_(options.target), local_only_(options.local_only) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->Onboard(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncOnboard(&messages.context, messages.request, queue);
  }
  OnboardedBlocks Finish(const std::shared_ptr<AgentLink>& link, bool answered);

  Messages<v1::OnboardRequest, v1::OnboardResponse> messages;

 private:
  OnboardedBlocks Read(const std::shared_ptr<AgentLink>& link);

  const SpaceHandle space_;
  const std::span<const EngineKey> keys_;  // The caller's; not used after Fill().
  const OnboardTarget target_;
  const bool local_only_;
  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_CALL_H_
