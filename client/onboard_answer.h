// OnboardAnswer turns what an agent leased into OnboardedBlocks: of an onboard, or of a ticket that
// was redeemed.
#ifndef KVTIER_CLIENT_ONBOARD_ANSWER_H_
#define KVTIER_CLIENT_ONBOARD_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/block_memory.h"
#include "client/call.h"
#include "client/onboarded_blocks.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

MissReason MissReasonFrom(v1::MissReason reason);
// Returns why all is missing where the agent said nothing.
MissReason MissReasonOf(CallOutcome outcome);

class OnboardAnswer {
 public:
  OnboardAnswer() = default;  // Nothing was sent.
  OnboardAnswer(std::shared_ptr<Connection> connection, BlockMemory memory)
      : connection_(std::move(connection)), memory_(std::move(memory)) {}

  // One result for each sequence that was asked about; gives back what is no use to us. `timeout`
  // is what the call was given.
  std::vector<OnboardedBlocks> Read(const std::shared_ptr<AgentLink>& link,
                                    const std::vector<AskedSequence>& asked,
                                    const v1::OnboardResponse& response, CallOutcome outcome,
                                    absl::Duration timeout);
  // Counts what came of a sequence of `asked` keys.
  static void Count(const OnboardedBlocks& onboarded, size_t asked, ClientStats* stats);

 private:
  // What is no use to us goes to `unusable`. `usable`: the memory can be read.
  OnboardedBlocks ReadOne(const v1::OnboardedSequence& wire, const AskedSequence& asked,
                          bool usable, std::vector<uint64_t>* unusable) const;

  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_ANSWER_H_
