#include "client/onboard_parts_call.h"

#include <cstddef>

namespace kvtier {

bool OnboardPartsCall::TakePart(const std::shared_ptr<AgentLink>& link) {
  const v1::OnboardPart& message = messages.response;
  std::vector<OnboardedPart> parts =
      question_.answer().ReadPart(link, question_.asked(), message, &arrived_);
  link->Count([&](ClientStats* stats) {
    for (const OnboardedPart& part : parts) OnboardAnswer::CountBlocks(part.blocks, stats);
  });
  for (size_t i = 0; i < ends_.size() && static_cast<int>(i) < message.missed_size(); ++i) {
    ends_[i].missed = MissReasonFrom(message.missed(static_cast<int>(i)));
  }
  for (OnboardedPart& part : parts) {
    ends_[part.sequence].blocks += part.blocks.size();
    on_part_(std::move(part));
  }
  return message.missed_size() > 0;
}

OnboardPartsCall::Result OnboardPartsCall::Finish(const std::shared_ptr<AgentLink>& link,
                                                  CallOutcome outcome) {
  question_.End(link.get(), messages.request, outcome);
  const std::vector<AskedSequence>& asked = question_.asked();
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (outcome == CallOutcome::kAnswered) continue;
    const bool is_whole = ends_[i].blocks == asked[i].keys;
    ends_[i].missed = is_whole ? MissReason::kNone : MissReasonOf(outcome);
  }
  link->Count([&](ClientStats* stats) {
    for (size_t i = 0; i < ends_.size(); ++i) {
      OnboardAnswer::CountMissed(asked[i].keys - ends_[i].blocks, ends_[i].missed, stats);
    }
  });
  return std::move(ends_);
}

}  // namespace kvtier
