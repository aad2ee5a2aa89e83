// SwapOutCall and SwapInCall move blocks between granted slots of the GPU pool and the agent's host
// memory.
#ifndef KVTIER_CLIENT_SWAP_CALLS_H_
#define KVTIER_CLIENT_SWAP_CALLS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/block_memory.h"
#include "client/call.h"
#include "client/granted_slots.h"
#include "client/swapped_sequence.h"
#include "grpcpp/support/status.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class SwapOutCall {
 public:
  using Result = absl::StatusOr<SwappedSequence>;
  static constexpr char kName[] = "swap_out";

  // REQUIRES: `slots` outlives the call.
  SwapOutCall(const GrantedSlots& slots, std::span<const uint32_t> numbers,
              const SwapOutOptions& options);
  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    answer_ = stub->SwapOut(&messages.context, messages.request, &messages.response);
    is_sent_ = true;
    return answer_;
  }
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::SwapOutRequest, v1::SwapOutResponse> messages;

 private:
  const GrantedSlots& slots_;
  bool is_sent_ = false;
  grpc::Status answer_;
};

class SwapInCall {
 public:
  using Result = absl::StatusOr<GrantedSlots>;
  static constexpr char kName[] = "swap_in";

  // Brings the blocks back into the slots `own`; empty: into new slots, which it returns. REQUIRES:
  // `sequence` outlives the call.
  SwapInCall(const SwappedSequence& sequence, std::span<const uint32_t> own,
             absl::Duration timeout);
  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    answer_ = stub->SwapIn(&messages.context, messages.request, &messages.response);
    is_sent_ = true;
    return answer_;
  }
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::SwapInRequest, v1::SwapInResponse> messages;

 private:
  const SwappedSequence& sequence_;
  bool is_sent_ = false;
  grpc::Status answer_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SWAP_CALLS_H_
