// TakeSlotsCall asks for slots of the GPU pool.
#ifndef KVTIER_CLIENT_TAKE_SLOTS_CALL_H_
#define KVTIER_CLIENT_TAKE_SLOTS_CALL_H_

#include <cstdint>
#include <memory>

#include "client/block_memory.h"
#include "client/call.h"
#include "client/client.h"
#include "client/granted_slots.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class TakeSlotsCall {
 public:
  using Result = GrantedSlots;
  static constexpr char kName[] = "take_slots";

  TakeSlotsCall(SpaceHandle space, uint32_t slots, absl::Duration timeout)
      : space_(space), slots_(slots) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->TakeSlots(&messages.context, messages.request, &messages.response);
  }
  GrantedSlots Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::TakeSlotsRequest, v1::TakeSlotsResponse> messages;

 private:
  const SpaceHandle space_;
  const uint32_t slots_;
  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
  uint64_t block_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_TAKE_SLOTS_CALL_H_
