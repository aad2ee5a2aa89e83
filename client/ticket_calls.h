// TakeTicketCall takes a ticket that holds blocks for other processes; RedeemCall redeems one.
#ifndef KVTIER_CLIENT_TICKET_CALLS_H_
#define KVTIER_CLIENT_TICKET_CALLS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "client/onboard_answer.h"
#include "client/ticket.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

class TakeTicketCall {
 public:
  using Result = PinTicket;
  static constexpr char kName[] = "take_ticket";

  TakeTicketCall(std::span<const KeySequence> sequences, const TicketOptions& options,
                 absl::Duration timeout);
  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->TakeTicket(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncTakeTicket(&messages.context, messages.request, queue);
  }
  PinTicket Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::TakeTicketRequest, v1::TakeTicketResponse> messages;

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
};

class RedeemCall {
 public:
  using Result = std::vector<OnboardedBlocks>;  // One entry for each space.
  static constexpr char kName[] = "redeem_ticket";

  RedeemCall(const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
             absl::Duration timeout);
  bool Fill(const std::shared_ptr<Connection>& connection);
  grpc::Status Send(v1::Worker::StubInterface* stub) {
    return stub->RedeemTicket(&messages.context, messages.request, &messages.response);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->AsyncRedeemTicket(&messages.context, messages.request, queue);
  }
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::RedeemTicketRequest, v1::OnboardResponse> messages;

 private:
  const std::span<const SpaceHandle> spaces_;
  std::vector<AskedSequence> asked_;
  OnboardAnswer answer_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_TICKET_CALLS_H_
