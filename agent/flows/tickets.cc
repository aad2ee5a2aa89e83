#include "agent/flows/tickets.h"

#include <sys/random.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

TicketId DrawId() {
  TicketId id{};
  KVT_CHECK(getrandom(id.data(), id.size(), 0) == static_cast<ssize_t>(id.size()));
  return id;
}

// Returns the same error whatever is wrong, so that a stranger learns nothing.
absl::Status NoSuchTicket() {
  return absl::NotFoundError(
      "ticket: it does not exist, has expired, or was redeemed by this rank already; onboard "
      "without it");
}

// Returns what was brought once more, under pins of its own.
Onboarder::Brought PinAgain(const Onboarder::Brought& brought) {
  Onboarder::Brought again{.missed = brought.missed};
  again.blocks.resize(brought.blocks.size());
  for (size_t i = 0; i < brought.blocks.size(); ++i) {
    const Onboarder::Wanted& block = brought.blocks[i];
    if (!block.pin) continue;
    again.blocks[i] = {.pin = block.pin.Again(), .from = block.from};
  }
  return again;
}

}  // namespace

absl::Status Tickets::Check(const TicketRequest& request) {
  if (request.redemptions < 1 || request.redemptions > kMaxRedemptions) {
    return absl::InvalidArgumentError(
        absl::StrCat("redemptions: ", request.redemptions, "; must be 1 to ", kMaxRedemptions));
  }
  if (request.lifetime <= absl::ZeroDuration() || request.lifetime > kMaxTicketLifetime) {
    return absl::InvalidArgumentError(
        absl::StrCat("lifetime_ms: ", absl::ToInt64Milliseconds(request.lifetime),
                     "; must be 1 to ", absl::ToInt64Milliseconds(kMaxTicketLifetime)));
  }
  return absl::OkStatus();
}

absl::Status Tickets::CheckRoom(const Ticket& ticket) const {
  const TicketHolder& holder = ticket.holder;
  Use of_payer;             // Use in all domains.
  uint64_t own_bytes = 0;   // Bytes that the holder's tickets hold in the domain.
  uint64_t held_bytes = 0;  // Bytes that the others' tickets hold there.
  for (const auto& [other, use] : use_) {
    if (other.payer == holder.payer) {
      of_payer.tickets += use.tickets;
      of_payer.blocks += use.blocks;
    }
    if (other.domain == holder.domain) (other == holder ? own_bytes : held_bytes) += use.bytes;
  }
  uint64_t bytes = parts_.host->slots(holder.domain).capacity_bytes() / kTicketPart;
  bytes -= std::min(bytes, held_bytes);
  if (holder.payer != holder.domain) bytes /= kMemberTicketPart;
  if (of_payer.tickets >= kMaxTicketsPerDomain) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tickets: the tenant has ", kMaxTicketsPerDomain,
                     ", the most that it may have; redeem or release some"));
  }
  if (of_payer.blocks + ticket.blocks > kMaxTicketBlocks || own_bytes + ticket.bytes > bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tickets: with these ", ticket.blocks, " blocks the tenant's tickets would ",
                     "hold more than ", kMaxTicketBlocks,
                     " blocks or their share of host memory; redeem or release some"));
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<TakenTicket>> Tickets::Take(TicketRequest request) {
  KVT_CO_RETURN_IF_ERROR(Check(request));
  Ticket ticket{.holder = TicketHolder::Of(request.sequences[0].run)};
  ticket.redeemed.resize(request.redemptions);
  ticket.requests = std::move(request.sequences);
  KVT_CO_RETURN_IF_ERROR(CheckRoom(ticket));
  ticket.brought = co_await parts_.onboarder->BringAll(&ticket.requests);
  TakenTicket taken;
  for (size_t i = 0; i < ticket.brought.size(); ++i) {
    TakenTicket::Sequence& sequence = taken.sequences.emplace_back();
    for (size_t key = 0; key < ticket.brought[i].blocks.size(); ++key) {
      if (!parts_.onboarder->IsReady(ticket.requests[i], key, &ticket.brought[i])) continue;
      const Pin& pin = ticket.brought[i].blocks[key].pin;
      sequence.indices.push_back(key);
      ticket.bytes += static_cast<const HostBlock&>(pin.block()).slot.slot_bytes();
    }
    sequence.missed = ticket.brought[i].missed;
    ticket.blocks += sequence.indices.size();
  }
  if (ticket.blocks == 0) co_return taken;
  KVT_CO_RETURN_IF_ERROR(CheckRoom(ticket));
  ticket.deadline = parts_.executor->Now() + request.lifetime;
  taken.id = DrawId();
  taken.deadline = ticket.deadline;
  Use& use = use_[ticket.holder];
  ++use.tickets;
  use.blocks += ticket.blocks;
  use.bytes += ticket.bytes;
  by_deadline_.emplace(ticket.deadline, taken.id);
  KVT_CHECK(tickets_.emplace(taken.id, std::move(ticket)).second);
  co_return taken;
}

absl::StatusOr<std::vector<Onboarded>> Tickets::Redeem(SessionId session,
                                                       const TicketHolder& holder,
                                                       const TicketId& id, uint32_t rank,
                                                       const std::vector<SpaceDigest>& spaces) {
  const auto found = tickets_.find(id);
  if (found == tickets_.end()) return NoSuchTicket();
  Ticket& ticket = found->second;
  if (ticket.holder != holder || parts_.executor->Now() >= ticket.deadline ||
      rank >= ticket.redeemed.size() || ticket.redeemed[rank]) {
    return NoSuchTicket();
  }
  if (spaces.size() != ticket.requests.size()) {
    return absl::InvalidArgumentError(absl::StrCat("space_ids: ", spaces.size(), "; must be ",
                                                   ticket.requests.size(),
                                                   ", one for each sequence of the ticket"));
  }
  for (size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i] == ticket.requests[i].run.space) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("space_ids[", i, "]: must be the space of the ticket's sequence ", i));
  }
  ticket.redeemed[rank] = true;
  std::vector<Onboarded> all;
  absl::Status status;
  for (size_t i = 0; i < spaces.size() && status.ok(); ++i) {
    OnboardRequest request = ticket.requests[i];
    request.run.session = session;
    absl::StatusOr<Onboarded> onboarded =
        parts_.onboarder->GrantLeases(request, PinAgain(ticket.brought[i]));
    status = onboarded.status();
    if (status.ok()) all.push_back(*std::move(onboarded));
  }
  if (std::ranges::find(ticket.redeemed, false) == ticket.redeemed.end()) End(id);
  KVT_RETURN_IF_ERROR(status);
  return all;
}

void Tickets::End(const TicketId& id) {
  const auto ticket = tickets_.find(id);
  const auto use = use_.find(ticket->second.holder);
  --use->second.tickets;
  use->second.blocks -= ticket->second.blocks;
  use->second.bytes -= ticket->second.bytes;
  if (use->second.tickets == 0) use_.erase(use);
  by_deadline_.erase({ticket->second.deadline, id});
  tickets_.erase(ticket);
}

void Tickets::Release(const TicketHolder& holder, const TicketId& id) {
  const auto ticket = tickets_.find(id);
  if (ticket != tickets_.end() && ticket->second.holder == holder) End(id);
}

bool Tickets::Sweep() {
  const absl::Time now = parts_.executor->Now();
  size_t ended = 0;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    if (ended >= kEndedPerSweep) return true;
    const TicketId id = by_deadline_.begin()->second;
    ended += tickets_.at(id).blocks;
    End(id);
  }
  return false;
}

size_t Tickets::blocks() const {
  size_t blocks = 0;
  for (const auto& [holder, use] : use_) blocks += use.blocks;
  return blocks;
}

void Tickets::Audit() const {
  absl::flat_hash_map<TicketHolder, Use> use;
  for (const auto& [id, ticket] : tickets_) {
    size_t pinned = 0;
    for (const Onboarder::Brought& brought : ticket.brought) {
      for (const Onboarder::Wanted& block : brought.blocks) pinned += block.pin ? 1 : 0;
    }
    KVT_CHECK(pinned == ticket.blocks && pinned > 0);
    Use& of_holder = use[ticket.holder];
    ++of_holder.tickets;
    of_holder.blocks += ticket.blocks;
    of_holder.bytes += ticket.bytes;
  }
  KVT_CHECK(use == use_);
  KVT_CHECK(by_deadline_.size() == tickets_.size());
}

}  // namespace kvtier
