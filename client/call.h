// The way of one call: admitted by the link, sent with a deadline, its end told to the
// link, its answer read. RunCall waits for it; SubmitCall does not.
//
// Each kind of call (match_call.h, onboard_call.h, ...) is a class with:
//   Result                      what the caller gets
//   kName                       for error texts
//   messages                    its Messages<Request, Response>
//   bool Fill(connection)       writes the request; false: a miss, send nothing
//   Send(stub), Start(stub, f)  the blocking and the asynchronous RPC
//   Result Finish(link, bool)   reads the answer; false: there is none
#ifndef KVTIER_CLIENT_CALL_H_
#define KVTIER_CLIENT_CALL_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent_link.h"
#include "client/call_deadline.h"
#include "client/submitted_calls.h"
#include "core/block_key.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "proto/convert.h"

namespace kvtier {

// What one RPC needs for as long as it is on its way.
template <typename Request, typename Response>
struct Messages {
  absl::Duration timeout;
  grpc::ClientContext context;
  Request request;
  Response response;
};

// The three things every request begins with.
template <typename Request>
void FillPrefix(const Connection& connection, const Connection::Space& space,
                std::span<const EngineKey> keys, Request* request) {
  request->set_session_token(connection.session()->token());
  request->set_space_id(space.id);
  request->mutable_engine_keys()->Reserve(static_cast<int>(keys.size()));
  for (const EngineKey& key : keys) {
    request->add_engine_keys(key.bytes().data(), key.bytes().size());
  }
}

template <typename CallType>
typename CallType::Result RunCall(const std::shared_ptr<AgentLink>& link, CallType* call) {
  // No time to ask is no reason to blame the agent.
  const absl::Duration timeout = call->messages.timeout;
  if (timeout <= absl::ZeroDuration()) return call->Finish(link, false);
  const std::shared_ptr<Connection> connection = link->Admit();
  if (connection == nullptr || !call->Fill(connection)) return call->Finish(link, false);
  SetTimeout(&call->messages.context, timeout);
  const absl::Status status = convert::FromGrpc(call->Send(&connection->stub()));
  return call->Finish(
      link,
      link->Ended(connection, {.name = CallType::kName, .timeout = timeout, .status = status}));
}

// As Client::SubmitOnboard says. Takes `*call` only when it returns OK. REQUIRES: the
// call's arguments are checked.
template <typename CallType>
absl::Status SubmitCall(const std::shared_ptr<AgentLink>& link,
                        const std::shared_ptr<SubmittedCalls>& submitted,
                        std::unique_ptr<CallType>* call,
                        absl::AnyInvocable<void(typename CallType::Result)> done) {
  // One object, shared, because gRPC's callback must be copyable.
  struct Flight {
    std::unique_ptr<CallType> call;
    absl::AnyInvocable<void(typename CallType::Result)> done;
    std::shared_ptr<AgentLink> link;
    std::shared_ptr<SubmittedCalls> submitted;
    std::shared_ptr<Connection> connection;
  };
  if (!submitted->Add(&(*call)->messages.context)) {
    return absl::ResourceExhaustedError("too many submitted calls are under way");
  }
  const absl::Duration timeout = (*call)->messages.timeout;
  auto flight =
      std::make_shared<Flight>(Flight{std::move(*call), std::move(done), link, submitted,
                                      timeout > absl::ZeroDuration() ? link->Admit() : nullptr});
  const auto end = [flight](bool answered) {
    flight->done(flight->call->Finish(flight->link, answered));
    flight->submitted->Remove(&flight->call->messages.context);
  };
  if (flight->connection == nullptr || !flight->call->Fill(flight->connection)) {
    end(false);
    return absl::OkStatus();
  }
  SetTimeout(&flight->call->messages.context, timeout);
  flight->call->Start(
      flight->connection->stub().async(), [flight, end, timeout](const grpc::Status& status) {
        end(flight->link->Ended(
            flight->connection,
            {.name = CallType::kName, .timeout = timeout, .status = convert::FromGrpc(status)}));
      });
  return absl::OkStatus();
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CALL_H_
