// OnboardPartsCall asks for blocks that are leased and handed over in parts, as they become ready.
#ifndef KVTIER_CLIENT_ONBOARD_PARTS_CALL_H_
#define KVTIER_CLIENT_ONBOARD_PARTS_CALL_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "client/call.h"
#include "client/client.h"
#include "client/onboard_question.h"
#include "client/onboarded_part.h"
#include "grpcpp/completion_queue.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

// OnboardPartsCall is like the calls that are answered once (call.h), with TakePart() for each
// message.
class OnboardPartsCall {
 public:
  using Result = std::vector<OnboardedInParts>;  // One entry for each sequence.
  using OnPart = absl::AnyInvocable<void(OnboardedPart)>;
  static constexpr char kName[] = "onboard_parts";

  OnboardPartsCall(std::span<const KeySequence> sequences, const OnboardOptions& options,
                   absl::Duration timeout, OnPart on_part)
      : question_(sequences, options), on_part_(std::move(on_part)), ends_(sequences.size()) {
    messages.timeout = timeout;
  }

  bool Fill(const std::shared_ptr<Connection>& connection) {
    arrived_.resize(ends_.size());
    return question_.Fill(connection, messages.timeout, &messages.request);
  }
  auto Start(v1::Worker::StubInterface* stub, grpc::CompletionQueue* queue) {
    return stub->PrepareAsyncOnboardParts(&messages.context, messages.request, queue);
  }
  // Hands over what messages.response carries. Returns whether it was the last message.
  bool TakePart(const std::shared_ptr<AgentLink>& link);
  Result Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome);

  Messages<v1::OnboardRequest, v1::OnboardPart> messages;

 private:
  OnboardQuestion question_;
  OnPart on_part_;
  std::vector<ArrivedKeys> arrived_;  // Keys whose blocks have come, by sequence.
  Result ends_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_PARTS_CALL_H_
