// Implements kvtier_tickets.h.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_tickets.h"
#include "client/c/results.h"
#include "client/c/submission.h"

namespace kvtier::c {
namespace {

static_assert(KVTIER_MAX_REDEMPTIONS == Client::kMaxRedemptions);
static_assert(absl::Milliseconds(KVTIER_MAX_TICKET_LIFETIME_MS) == Client::kMaxTicketLifetime);

TicketId IdOf(const kvtier_ticket& ticket) {
  TicketId id{};
  std::ranges::copy(ticket.bytes, id.begin());
  return id;
}

// Memory of the caller's that a taken ticket fills.
struct TicketRoom {
  kvtier_ticket* ticket;
  uint64_t* blocks;  // Number of blocks of each sequence; may be null.
};

// Returns how many blocks are held.
int64_t FillTicket(const PinTicket& taken, const TicketRoom& room) {
  int64_t all = 0;
  for (size_t i = 0; i < taken.sequences.size(); ++i) {
    const size_t held = taken.sequences[i].key_indices.size();
    if (room.blocks != nullptr) room.blocks[i] = held;
    all += static_cast<int64_t>(held);
  }
  if (!taken.id) return 0;
  std::ranges::copy(*taken.id, room.ticket->bytes);
  return all;
}

TicketOptions OptionsOf(const CallRequest& request, uint32_t redemptions, uint32_t lifetime_ms) {
  return {.timeout = request.match().timeout,
          .local_only = request.match().local_only,
          .redemptions = redemptions,
          .lifetime = absl::Milliseconds(lifetime_ms)};
}

std::vector<SpaceHandle> HandlesOf(std::span<const kvtier_space> spaces) {
  std::vector<SpaceHandle> handles;
  handles.reserve(spaces.size());
  for (const kvtier_space space : spaces) handles.push_back(SpaceHandle{space});
  return handles;
}

int CheckTake(const kvtier_client* client, const kvtier_ticket* ticket) {
  if (client != nullptr && ticket != nullptr) return KVTIER_OK;
  return Fail(KVTIER_INVALID, "client or ticket is NULL");
}

int CheckRedeem(const kvtier_client* client, const kvtier_ticket* ticket,
                std::span<const kvtier_space> spaces, kvtier_hit* const* hits) {
  const bool no_spaces = spaces.data() == nullptr && !spaces.empty();
  if (client != nullptr && ticket != nullptr && hits != nullptr && !no_spaces) return KVTIER_OK;
  return Fail(KVTIER_INVALID, "client, ticket, spaces or hits is NULL");
}

}  // namespace
}  // namespace kvtier::c

using namespace kvtier;     // NOLINT(google-build-using-namespace): this is its C face.
using namespace kvtier::c;  // NOLINT(google-build-using-namespace)

extern "C" {

int64_t kvtier_take_ticket(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           uint32_t redemptions, uint32_t lifetime_ms, uint32_t flags,
                           int32_t timeout_ms, kvtier_ticket* ticket, uint64_t* blocks) {
  return Guarded([&]() -> int64_t {
    if (const int wrong = CheckTake(client, ticket); wrong != KVTIER_OK) return wrong;
    const auto request = CallRequest::From({{sequences, count}, KVTIER_HOST, flags, timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto taken = client->client->TakeTicket(request->sequences(),
                                                  OptionsOf(*request, redemptions, lifetime_ms));
    if (!taken.ok()) return Fail(taken.status());
    return FillTicket(*taken, {ticket, blocks});
  });
}

int kvtier_submit_take_ticket(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                              uint32_t redemptions, uint32_t lifetime_ms, uint32_t flags,
                              int32_t timeout_ms, kvtier_ticket* ticket, uint64_t* blocks,
                              uint64_t tag) {
  return Guarded([&]() -> int {
    if (const int wrong = CheckTake(client, ticket); wrong != KVTIER_OK) return wrong;
    const auto request = CallRequest::From({{sequences, count}, KVTIER_HOST, flags, timeout_ms});
    if (!request.ok()) return Fail(request.status());
    return Submitted<PinTicket>(
        {client, tag, KVTIER_OP_TAKE_TICKET},
        [&](auto done) {
          return client->client->SubmitTakeTicket(
              request->sequences(), OptionsOf(*request, redemptions, lifetime_ms), std::move(done));
        },
        [ticket, blocks](const PinTicket& taken, kvtier_completion* completion) {
          completion->blocks = FillTicket(taken, {ticket, blocks});
        });
  });
}

int64_t kvtier_redeem_ticket(kvtier_client* client, const kvtier_ticket* ticket, uint32_t rank,
                             const kvtier_space* spaces, size_t count, int32_t timeout_ms,
                             kvtier_hit** hits) {
  return Guarded([&]() -> int64_t {
    const std::span<const kvtier_space> all(spaces, count);
    if (const int wrong = CheckRedeem(client, ticket, all, hits); wrong != KVTIER_OK) return wrong;
    std::fill_n(hits, count, nullptr);
    const auto timeout = TimeoutFrom(timeout_ms);
    if (!timeout.ok()) return Fail(timeout.status());
    auto redeemed = client->client->Redeem(IdOf(*ticket), rank, HandlesOf(all), *timeout);
    if (!redeemed.ok()) return Fail(redeemed.status());
    return FillHits(*std::move(redeemed), hits);
  });
}

int kvtier_submit_redeem_ticket(kvtier_client* client, const kvtier_ticket* ticket, uint32_t rank,
                                const kvtier_space* spaces, size_t count, int32_t timeout_ms,
                                kvtier_hit** hits, uint64_t tag) {
  return Guarded([&]() -> int {
    const std::span<const kvtier_space> all(spaces, count);
    if (const int wrong = CheckRedeem(client, ticket, all, hits); wrong != KVTIER_OK) return wrong;
    const auto timeout = TimeoutFrom(timeout_ms);
    if (!timeout.ok()) return Fail(timeout.status());
    return Submitted<std::vector<OnboardedBlocks>>(
        {client, tag, KVTIER_OP_REDEEM_TICKET},
        [&](auto done) {
          return client->client->SubmitRedeem(IdOf(*ticket), rank, HandlesOf(all), *timeout,
                                              std::move(done));
        },
        [hits](std::vector<OnboardedBlocks> redeemed, kvtier_completion* completion) {
          completion->blocks = FillHits(std::move(redeemed), hits);
        });
  });
}

void kvtier_release_ticket(kvtier_client* client, const kvtier_ticket* ticket) {
  if (client == nullptr || ticket == nullptr) return;
  Guarded([&] {
    client->client->ReleaseTicket(IdOf(*ticket));
    return 0;
  });
}

}  // extern "C"
