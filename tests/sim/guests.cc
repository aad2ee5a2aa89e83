#include "tests/sim/guests.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/workload.h"
#include "tests/testing/blocks.h"

namespace kvtier::sim {
namespace {

constexpr size_t kGuestSpace = 0;
// Seed of the contents of a guest's blocks; no other tenant has it.
constexpr uint64_t kGuestSeed = 1000;
// First conversation of the guests; DrawConversation() draws none of theirs.
constexpr uint64_t kGuestConversation = 1'000'000;

}  // namespace

GuestVisit::GuestVisit(const Parts& parts, const Behaviour& behaviour)
    : parts_(parts),
      behaviour_(behaviour),
      name_(absl::StrCat("guest-", parts.node->number())),
      keys_(FreshConversation(kGuestConversation + parts.node->number(), behaviour.blocks)),
      agent_(parts.node->agent()) {}

BlockRun GuestVisit::NameRun() const {
  return *agent_.sessions().table().NameRun(session_, space_id_, std::nullopt, keys_);
}

Task<void> GuestVisit::Run() {
  if (!co_await Come()) co_return;
  co_await Put();
  co_await Get();
  if (!co_await Leave() || !co_await Come()) co_return;
  const uint64_t left = co_await Get();
  parts_.oracle->Expect(left == 0, absl::StrCat("node ", parts_.node->number(), ": ", left,
                                                " blocks of a dropped tenant are there"));
  co_await Leave();
}

Task<bool> GuestVisit::Come() {
  TenantChange change{.name = name_};
  std::optional<std::string> secret = absl::StrCat("a secret of ", name_);
  const absl::Status made = co_await agent_.tenants().Set(std::move(change), std::move(secret));
  parts_.trace->Add("guest comes", {parts_.node->number(), static_cast<uint64_t>(made.code())});
  parts_.oracle->Expect(made.ok() || absl::IsFailedPrecondition(made),
                        absl::StrCat("a guest is refused: ", made.ToString()));
  if (!made.ok()) co_return false;
  const Tenant& tenant = *agent_.options().tenants.Find(name_);
  domain_ = tenant.domain;
  SessionToken token{};
  token[0] = static_cast<uint8_t>(parts_.node->number());
  token[1] = static_cast<uint8_t>(domain_);
  token[2] = 0xff;  // No worker draws so few bits.
  const absl::StatusOr<SessionId> session =
      agent_.sessions().Open(SessionTenants::Own(tenant), token);
  if (!session.ok()) co_return false;
  session_ = *session;
  space_id_ = agent_.sessions().table().AddSpace(session_, Space(kGuestSpace)).value();
  if (agent_.sessions().staging().enabled()) {
    // A guest without a region puts nothing.
    agent_.sessions().staging().RegionOf(session_, domain_).status().IgnoreError();
  }
  co_return true;
}

Task<void> GuestVisit::Put() {
  const absl::StatusOr<Reserved> reserved = agent_.flows().putter.Reserve(NameRun(), Tier::kHost);
  if (!reserved.ok()) co_return;
  std::vector<ReservationId> ids;
  for (size_t i = 0; i < reserved->blocks.size(); ++i) {
    const ReservedBlock& block = reserved->blocks[i];
    if (block.state != ReservedBlock::State::kReserved) continue;
    testing::FillBlock(kGuestSeed, keys_[i],
                       parts_.node->WriteMemory(session_, Tier::kHost, domain_, block.offset,
                                                LengthOf(kGuestSpace, keys_[i])));
    ids.push_back(block.id);
  }
  co_await agent_.flows().putter.Commit(session_, std::move(ids));
}

Task<uint64_t> GuestVisit::Get() {
  OnboardRequest request{.run = NameRun(),
                         .deadline = agent_.executor()->Now() + absl::Milliseconds(200),
                         .local_only = true};
  const absl::StatusOr<Onboarded> onboarded =
      co_await agent_.flows().onboarder.Onboard(std::move(request));
  if (!onboarded.ok()) co_return 0;
  std::vector<LeaseId> leases;
  for (const LeasedBlock& block : onboarded->blocks) {
    parts_.oracle->Expect(
        testing::HoldsBlock(kGuestSeed, keys_[block.index],
                            parts_.node->Memory(Tier::kHost, domain_, block.offset, block.length)),
        absl::StrCat("node ", parts_.node->number(), " gives a guest wrong bytes"));
    leases.push_back(block.lease);
  }
  if (!behaviour_.keeps_leases) agent_.sessions().leases().Release(session_, leases);
  co_return onboarded->blocks.size();
}

Task<bool> GuestVisit::Leave() {
  const absl::StatusOr<NodeTenants::Dropped> dropped = co_await agent_.tenants().Drop(name_);
  parts_.trace->Add("guest is dropped",
                    {parts_.node->number(), static_cast<uint64_t>(dropped.status().code()),
                     dropped.ok() ? dropped->held_bytes : 0});
  // Does the work of the descriptor socket, which sees the hangup after the end of the session.
  if (agent_.CloseSession(session_)) agent_.sessions().WritesOver(session_);
  co_return dropped.ok();
}

}  // namespace kvtier::sim
