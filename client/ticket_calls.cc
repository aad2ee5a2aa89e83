#include "client/ticket_calls.h"

#include <algorithm>
#include <utility>

#include "client/block_memory.h"

namespace kvtier {

TakeTicketCall::TakeTicketCall(std::span<const KeySequence> sequences, const TicketOptions& options,
                               absl::Duration timeout)
    : sequences_(sequences), asked_(AskedOf(sequences)) {
  messages.timeout = timeout;
  messages.request.set_timeout_ms(AgentTimeoutMs(timeout));
  messages.request.set_local_only(options.local_only);
  messages.request.set_redemptions(options.redemptions);
  messages.request.set_lifetime_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(options.lifetime)));
}

bool TakeTicketCall::Fill(const std::shared_ptr<Connection>& connection) {
  return FillSequences(*connection, sequences_, &messages.request, &asked_);
}

PinTicket TakeTicketCall::Finish(const std::shared_ptr<AgentLink>& /*link*/, CallOutcome outcome) {
  PinTicket ticket;
  ticket.sequences.resize(asked_.size());
  const bool answered = outcome == CallOutcome::kAnswered;
  for (size_t i = 0; i < asked_.size(); ++i) {
    PinTicket::Sequence& sequence = ticket.sequences[i];
    if (!answered) sequence.missed = MissReasonOf(outcome);
    if (!answered || static_cast<int>(i) >= messages.response.sequences_size()) continue;
    const v1::TicketedSequence& wire = messages.response.sequences(static_cast<int>(i));
    sequence.key_indices.assign(wire.indices().begin(), wire.indices().end());
    sequence.missed = MissReasonFrom(wire.missed());
  }
  const std::string& id = messages.response.ticket();
  if (!answered || id.size() != std::tuple_size_v<TicketId>) return ticket;
  std::copy(id.begin(), id.end(), ticket.id.emplace().begin());
  return ticket;
}

RedeemCall::RedeemCall(const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
                       absl::Duration timeout)
    // Only the client that took the ticket knows its keys.
    : spaces_(spaces), asked_(spaces.size(), {.keys = Client::kMaxKeys, .is_set = true}) {
  messages.timeout = timeout;
  messages.request.set_ticket(id.data(), id.size());
  messages.request.set_rank(rank);
}

bool RedeemCall::Fill(const std::shared_ptr<Connection>& connection) {
  messages.request.set_session_token(connection->session()->token());
  for (size_t i = 0; i < spaces_.size(); ++i) {
    const auto space = connection->FindSpace(static_cast<size_t>(spaces_[i]));
    if (!space || space->id == 0) return false;
    asked_[i].lengths = space->lengths;
    messages.request.add_space_ids(space->id);
  }
  answer_ = OnboardAnswer(connection, BlockMemory::Arena(connection->session()->arena_read()));
  return true;
}

RedeemCall::Result RedeemCall::Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome) {
  Result all = answer_.Read(link, asked_, messages.response, outcome, messages.timeout);
  link->Count([&](ClientStats* stats) {
    for (const OnboardedBlocks& onboarded : all) {
      OnboardAnswer::CountBlocks(onboarded, stats);
    }
  });
  return all;
}

}  // namespace kvtier
