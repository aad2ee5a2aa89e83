// kvtier_tickets.h.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "client/c/asked.h"
#include "client/c/handles.h"
#include "client/c/kvtier_tickets.h"
#include "client/c/results.h"

namespace kvtier::c {
namespace {

static_assert(KVTIER_MAX_REDEMPTIONS == Client::kMaxRedemptions);
static_assert(absl::Milliseconds(KVTIER_MAX_TICKET_LIFETIME_MS) == Client::kMaxTicketLifetime);

TicketId IdOf(const kvtier_ticket& ticket) {
  TicketId id{};
  std::ranges::copy(ticket.bytes, id.begin());
  return id;
}

int64_t Take(kvtier_client* client, const CallArguments& arguments, TicketOptions options,
             kvtier_ticket* ticket, uint64_t* blocks) {
  const auto asked = Asked::From(arguments);
  if (!asked.ok()) return Fail(asked.status());
  options.timeout = asked->match().timeout;
  options.local_only = asked->match().local_only;
  const auto taken = client->client->TakeTicket(asked->sequences(), options);
  if (!taken.ok()) return Fail(taken.status());
  int64_t all = 0;
  for (size_t i = 0; i < taken->sequences.size(); ++i) {
    const size_t held = taken->sequences[i].key_indices.size();
    if (blocks != nullptr) blocks[i] = held;
    all += static_cast<int64_t>(held);
  }
  if (!taken->id) return 0;
  std::ranges::copy(*taken->id, ticket->bytes);
  return all;
}

int64_t Redeem(kvtier_client* client, const kvtier_ticket& ticket, uint32_t rank,
               std::span<const kvtier_space> spaces, int32_t timeout_ms, kvtier_hit** hits) {
  const auto timeout = TimeoutFrom(timeout_ms);
  if (!timeout.ok()) return Fail(timeout.status());
  std::vector<SpaceHandle> handles;
  for (const kvtier_space space : spaces) handles.push_back(SpaceHandle{space});
  auto all = client->client->Redeem(IdOf(ticket), rank, handles, *timeout);
  if (!all.ok()) return Fail(all.status());
  return FillHits(*std::move(all), hits);
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int64_t kvtier_take_ticket(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           uint32_t redemptions, uint32_t lifetime_ms, uint32_t flags,
                           int32_t timeout_ms, kvtier_ticket* ticket, uint64_t* blocks) {
  return kvtier::c::Guarded([&]() -> int64_t {
    if (client == nullptr || ticket == nullptr) {
      return kvtier::c::Fail(KVTIER_INVALID, "client or ticket is NULL");
    }
    return kvtier::c::Take(
        client, {.sequences = {sequences, count}, .flags = flags, .timeout_ms = timeout_ms},
        {.redemptions = redemptions, .lifetime = absl::Milliseconds(lifetime_ms)}, ticket, blocks);
  });
}

int64_t kvtier_redeem_ticket(kvtier_client* client, const kvtier_ticket* ticket, uint32_t rank,
                             const kvtier_space* spaces, size_t count, int32_t timeout_ms,
                             kvtier_hit** hits) {
  return kvtier::c::Guarded([&]() -> int64_t {
    if (client == nullptr || ticket == nullptr || hits == nullptr ||
        (spaces == nullptr && count > 0)) {
      return kvtier::c::Fail(KVTIER_INVALID, "client, ticket, spaces or hits is NULL");
    }
    std::fill_n(hits, count, nullptr);
    return kvtier::c::Redeem(client, *ticket, rank, {spaces, count}, timeout_ms, hits);
  });
}

void kvtier_release_ticket(kvtier_client* client, const kvtier_ticket* ticket) {
  if (client == nullptr || ticket == nullptr) return;
  kvtier::c::Guarded([&] {
    client->client->ReleaseTicket(kvtier::c::IdOf(*ticket));
    return 0;
  });
}

}  // extern "C"
