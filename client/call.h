// RunCall() and SubmitCall() make one call to the agent: the link admits it, it is sent with a
// deadline, the link is told how it ended, and its answer is read. RunCall waits for the end;
// SubmitCall does not.
//
// Each kind of call (match_call.h, onboard_call.h, ...) is a class with:
//   Result                      what the caller gets
//   kName                       for error texts
//   messages                    its Messages<Request, Response>
//   bool Fill(connection)       writes the request; false: a miss, send nothing
//   Send(stub), Start(stub, q)  the blocking and the asynchronous RPC
//   Result Finish(link, outcome)  reads the answer, if there is one
#ifndef KVTIER_CLIENT_CALL_H_
#define KVTIER_CLIENT_CALL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent_link.h"
#include "client/call_deadline.h"
#include "client/call_outcome.h"
#include "client/fork_guard.h"
#include "client/key_sequence.h"
#include "client/pending_call.h"
#include "client/submitted_calls.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/clock.h"
#include "grpcpp/client_context.h"
#include "kvtier/v1/worker.pb.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"

namespace kvtier {

// Messages are the objects that one RPC needs while it is on its way.
template <typename Request, typename Response>
struct Messages {
  // Timeout of the call; 0: the agent says what is here now, see AnswerTimeout().
  absl::Duration timeout;
  grpc::ClientContext context;
  Request request;
  Response response;
};

// AskedSequence is what a call remembers of one of its sequences until it is answered.
struct AskedSequence {
  size_t keys = 0;
  BlockLengths lengths;  // Lengths that blocks of its space may have.
  bool is_set = false;
  bool left_out = false;  // The agent is not asked about it.
};

// Writes the session and the sequences of a call. Returns false if the agent does not know the
// space of one.
template <typename Request>
bool FillSequences(const Connection& connection, std::span<const KeySequence> sequences,
                   Request* request, std::vector<AskedSequence>* asked) {
  request->set_session_token(connection.session()->token());
  for (size_t i = 0; i < sequences.size(); ++i) {
    if ((*asked)[i].left_out) continue;
    const KeySequence& sequence = sequences[i];
    const auto space = connection.FindSpace(static_cast<size_t>(sequence.space));
    if (!space || space->id == 0) return false;
    (*asked)[i].lengths = space->lengths;
    v1::Sequence* const wire = request->add_sequences();
    wire->set_space_id(space->id);
    wire->set_set(sequence.is_set);
    if (sequence.parent) {
      wire->set_parent_engine_key(sequence.parent->bytes().data(), sequence.parent->bytes().size());
    }
    convert::SetEngineKeys(sequence.keys, wire);
    if (sequence.hint != ReuseHint()) *wire->mutable_reuse_hint() = convert::ToWire(sequence.hint);
  }
  return true;
}

// Returns what the call remembers of `sequences`, whose spans it may not use after Fill().
inline std::vector<AskedSequence> AskedOf(std::span<const KeySequence> sequences) {
  std::vector<AskedSequence> asked(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    asked[i] = {.keys = sequences[i].keys.size(), .is_set = sequences[i].is_set};
  }
  return asked;
}

template <typename CallType>
typename CallType::Result RunCall(const std::shared_ptr<AgentLink>& link, CallType* call) {
  const absl::Duration timeout = AnswerTimeout(call->messages.timeout);
  const std::shared_ptr<Connection> connection = link->Admit(timeout);
  if (connection == nullptr) return call->Finish(link, CallOutcome::kUnreachable);
  if (!call->Fill(connection)) return call->Finish(link, CallOutcome::kSpaceRefused);
  SetTimeout(&call->messages.context, timeout);
  const absl::Time began = MonotonicClock().Now();
  const absl::Status status = convert::FromGrpc(call->Send(&connection->stub()));
  return call->Finish(link, link->Ended(connection, {.name = CallType::kName,
                                                     .timeout = timeout,
                                                     .took = MonotonicClock().Now() - began,
                                                     .status = status}));
}

// Starts a call, with `done` and errors as Client::SubmitOnboard() says. Takes `*call` only if it
// returns OK. REQUIRES: the call's arguments are checked.
template <typename CallType, typename PendingType = PendingUnaryCall<CallType>>
absl::Status SubmitCall(const std::shared_ptr<AgentLink>& link, SubmittedCalls* submitted,
                        std::unique_ptr<CallType>* call, typename PendingType::Done done) {
  if (InForkedChild()) {
    done((*call)->Finish(link, CallOutcome::kUnreachable));
    call->reset();
    return absl::OkStatus();
  }
  if (!submitted->Book()) {
    return absl::ResourceExhaustedError(
        "too many submitted calls are in progress; poll those that ended");
  }
  std::shared_ptr<Connection> connection = link->Admit(AnswerTimeout((*call)->messages.timeout));
  if (connection != nullptr && (*call)->Fill(connection)) {
    submitted->Launch(std::make_unique<PendingType>(link, std::move(connection), std::move(*call),
                                                    std::move(done)));
    return absl::OkStatus();
  }
  const CallOutcome outcome =
      connection == nullptr ? CallOutcome::kUnreachable : CallOutcome::kSpaceRefused;
  done((*call)->Finish(link, outcome));
  call->reset();
  submitted->Unbook();
  return absl::OkStatus();
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CALL_H_
