#include "client/onboard_call.h"

#include <cstddef>

namespace kvtier {

OnboardCall::Result OnboardCall::Finish(const std::shared_ptr<AgentLink>& link,
                                        CallOutcome outcome) {
  question_.End(link.get(), messages.request, outcome);
  const std::vector<AskedSequence>& asked = question_.asked();
  Result all = question_.answer().Read(link, asked, messages.response, outcome, messages.timeout);
  link->Count([&](ClientStats* stats) {
    for (size_t i = 0; i < all.size(); ++i) {
      OnboardAnswer::CountBlocks(all[i], stats);
      OnboardAnswer::CountMissed(asked[i].keys - all[i].size(), all[i].missed(), stats);
    }
  });
  return all;
}

}  // namespace kvtier
