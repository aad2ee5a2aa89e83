// OnboardAnswer turns the leases in an agent's answer into OnboardedBlocks: the answer to an
// onboard, a part of one, or a ticket that was redeemed.
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
// Returns why all blocks are missing if the agent did not answer.
MissReason MissReasonOf(CallOutcome outcome);

// ArrivedKeys notes the keys of one sequence whose blocks have come.
class ArrivedKeys {
 public:
  // Notes key `index`. Returns false if it is none of `asked`, has come before, or is of a run and
  // does not follow the key that came last.
  bool Note(const AskedSequence& asked, size_t index);

 private:
  size_t next_ = 0;         // Key of a run that comes next.
  std::vector<bool> came_;  // Whether each key of a set has come.
};

class OnboardAnswer {
 public:
  OnboardAnswer() = default;  // Makes the answer of a call that sent nothing.
  OnboardAnswer(std::shared_ptr<Connection> connection, BlockMemory memory)
      : connection_(std::move(connection)), memory_(std::move(memory)) {}

  // Returns one result for each sequence that was asked about; gives back leases that the worker
  // cannot use. `timeout` is the timeout of the call.
  std::vector<OnboardedBlocks> Read(const std::shared_ptr<AgentLink>& link,
                                    const std::vector<AskedSequence>& asked,
                                    const v1::OnboardResponse& response, CallOutcome outcome,
                                    absl::Duration timeout);
  // Returns the blocks of one part of an answer, for each sequence that has some, and notes them in
  // `arrived`, which has an entry for each sequence that was asked about. Gives back leases that
  // the worker cannot use.
  std::vector<OnboardedPart> ReadPart(const std::shared_ptr<AgentLink>& link,
                                      const std::vector<AskedSequence>& asked,
                                      const v1::OnboardPart& part,
                                      std::vector<ArrivedKeys>* arrived) const;
  static void CountBlocks(const OnboardedBlocks& onboarded, ClientStats* stats);
  static void CountMissed(size_t blocks, MissReason because, ClientStats* stats);

 private:
  // Reads the answer for one sequence. Leases that the worker cannot use go to `unusable`. `usable`
  // says whether the memory can be read.
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
