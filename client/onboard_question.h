// OnboardQuestion writes the request of an onboard, and holds the reader of its answer.
#ifndef KVTIER_CLIENT_ONBOARD_QUESTION_H_
#define KVTIER_CLIENT_ONBOARD_QUESTION_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "client/call.h"
#include "client/client.h"
#include "client/onboard_answer.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

class OnboardQuestion {
 public:
  OnboardQuestion(std::span<const KeySequence> sequences, const OnboardOptions& options)
      : sequences_(sequences),
        asked_(AskedOf(sequences)),
        target_(options.target),
        local_only_(options.local_only) {}

  // Writes the request of a call that was given `timeout`. Returns false if the call is a miss and
  // nothing is to be sent.
  bool Fill(const std::shared_ptr<Connection>& connection, absl::Duration timeout,
            v1::OnboardRequest* request);
  // Notes that the call has ended. Leases that travelled along with an unanswered request are given
  // back another time.
  void End(AgentLink* link, const v1::OnboardRequest& request, CallOutcome outcome);

  const std::vector<AskedSequence>& asked() const { return asked_; }
  OnboardAnswer& answer() { return answer_; }

 private:
  const std::span<const KeySequence> sequences_;  // Sequences of the caller, not used after Fill().
  std::vector<AskedSequence> asked_;
  const OnboardTarget target_;
  const bool local_only_;
  std::shared_ptr<Connection> connection_;  // Connection of the request; null: nothing was sent.
  OnboardAnswer answer_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_QUESTION_H_
