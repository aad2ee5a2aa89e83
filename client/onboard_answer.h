// OnboardAnswer turns what an agent leased into OnboardedBlocks: of an onboard, of a part of one,
// or of a ticket that was redeemed.
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
#include "client/onboarded_part.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

MissReason MissReasonFrom(v1::MissReason reason);
// Returns why all is missing where the agent said nothing.
MissReason MissReasonOf(CallOutcome outcome);

// The keys of one sequence whose blocks have come.
class ArrivedKeys {
 public:
  // Notes key `index`. False: it is none of `asked`, has come before, or does not follow what came
  // of its run.
  bool Note(const AskedSequence& asked, size_t index);

 private:
  size_t next_ = 0;         // Of a run: the key that follows.
  std::vector<bool> came_;  // Of a set, by key.
};

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
  // Returns the blocks of one part of an answer, for each sequence that has some, and notes them in
  // `arrived`, which has an entry for each sequence that was asked about. Gives back what is no use
  // to us.
  std::vector<OnboardedPart> ReadPart(const std::shared_ptr<AgentLink>& link,
                                      const std::vector<AskedSequence>& asked,
                                      const v1::OnboardPart& part,
                                      std::vector<ArrivedKeys>* arrived) const;
  static void CountBlocks(const OnboardedBlocks& onboarded, ClientStats* stats);
  static void CountMissed(size_t blocks, MissReason because, ClientStats* stats);

 private:
  // What is no use to us goes to `unusable`. `usable`: the memory can be read.
  OnboardedBlocks ReadOne(const v1::LeasedBlocks& wire, const AskedSequence& asked, bool usable,
                          ArrivedKeys* arrived, std::vector<uint64_t>* unusable) const;
  // Makes the blocks leases of ours, until `deadline_ns`.
  void Own(const std::shared_ptr<AgentLink>& link, uint64_t deadline_ns,
           OnboardedBlocks* onboarded) const;

  std::shared_ptr<Connection> connection_;
  BlockMemory memory_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARD_ANSWER_H_
