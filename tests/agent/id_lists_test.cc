// Tests the lists of ids in workers' calls: none is longer than it may be, and a long one makes no
// call of another tenant wait for all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/sessions/fair_turns.h"
#include "proto/convert.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/worker_calls.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kMost = convert::kMaxIdsPerRequest;

// ListOf adds ids to one field of a request.
template <typename Request>
struct ListOf {
  const char* field;
  std::function<void(Request*, uint64_t id)> add;
};

const std::vector<ListOf<v1::CommitRequest>> kOfCommit = {
    {"reservation_ids", [](auto* to, uint64_t id) { to->add_reservation_ids(id); }},
    {"unwritten_reservation_ids",
     [](auto* to, uint64_t id) { to->add_unwritten_reservation_ids(id); }},
    {"summed_reservation_ids", [](auto* to, uint64_t id) {
       to->add_summed_reservation_ids(id);
       to->add_sums(0);
       to->add_sums(0);
     }}};

const std::vector<ListOf<v1::ReleaseRequest>> kOfRelease = {
    {"lease_ids", [](auto* to, uint64_t id) { to->add_lease_ids(id); }},
    {"reservation_ids", [](auto* to, uint64_t id) { to->add_reservation_ids(id); }},
    {"slots", [](auto* to, uint64_t id) { to->add_slots(static_cast<uint32_t>(id)); }},
    {"damaged_lease_ids", [](auto* to, uint64_t id) { to->add_damaged_lease_ids(id); }},
    {"tickets", [](auto* to, uint64_t) { to->add_tickets(std::string(16, 't')); }},
    {"space_ids", [](auto* to, uint64_t id) { to->add_space_ids(static_cast<uint32_t>(id)); }},
    {"swap_ids", [](auto* to, uint64_t id) { to->add_swap_ids(id); }}};

const std::vector<ListOf<v1::OnboardRequest>> kOfOnboard = {
    {"released_lease_ids", [](auto* to, uint64_t id) { to->add_released_lease_ids(id); }}};
const std::vector<ListOf<v1::ReserveRequest>> kOfReserve = {
    {"released_lease_ids", [](auto* to, uint64_t id) { to->add_released_lease_ids(id); }}};

class IdListsTest : public ::testing::Test {
 protected:
  // Returns `request` with so many ids that the agent has not given.
  template <typename Request>
  static Request With(Request request, const ListOf<Request>& list, size_t count) {
    for (uint64_t i = 0; i < count; ++i) list.add(&request, 1'000'000 + i);
    return request;
  }
  template <typename Method, typename Request>
  grpc::Status StatusOf(Method method, Request request) {
    const auto call = calls_.Begin(method, std::move(request));
    calls_.Await(*call);
    return call->status();
  }
  template <typename Method, typename Request>
  void ExpectBounded(Method method, const Request& request,
                     const std::vector<ListOf<Request>>& lists) {
    for (const ListOf<Request>& list : lists) {
      EXPECT_TRUE(StatusOf(method, With(request, list, kMost)).ok()) << list.field;
      const grpc::Status refused = StatusOf(method, With(request, list, kMost + 1));
      EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << list.field;
      EXPECT_THAT(refused.error_message(),
                  AllOf(HasSubstr(list.field), HasSubstr(absl::StrCat(kMost + 1))));
    }
  }
  // Checks that a call of another tenant is answered in between each kKeysPerTurn ids.
  template <typename Method, typename Request>
  void ExpectGivesWay(Method method, const Request& request,
                      const std::vector<ListOf<Request>>& lists) {
    for (const ListOf<Request>& list : lists) {
      const auto call = calls_.Begin(method, With(request, list, kMost));
      size_t answered = 0;
      for (; !call->is_answered(); ++answered) {
        EXPECT_TRUE(
            StatusOf(&WorkerService::Match, WorkerCalls::About<v1::MatchRequest>(quiet_, 1, 1))
                .ok());
      }
      EXPECT_GE(answered, kMost / kKeysPerTurn - 1) << list.field;
    }
  }
  v1::CommitRequest Commit() const {
    v1::CommitRequest request;
    request.set_session_token(busy_.token);
    return request;
  }
  v1::ReleaseRequest Release() const {
    v1::ReleaseRequest request;
    request.set_session_token(busy_.token);
    return request;
  }
  template <typename Request>
  Request OfOneBlock() const {
    auto request = WorkerCalls::About<Request>(busy_, 1, 1);
    request.set_target(v1::TIER_HOST);
    return request;
  }

  AgentRig rig_{{.slots = 64, .disk = false}};
  WorkerCalls calls_{&rig_};
  const WorkerCalls::Worker busy_ = *calls_.Open(0);
  const WorkerCalls::Worker quiet_ = *calls_.Open(1);
};

// Once, half a million ids in one call held the decisions for 87 ms.
TEST_F(IdListsTest, ALongerListIsRefusedByItsName) {
  ExpectBounded(&WorkerService::Commit, Commit(), kOfCommit);
  ExpectBounded(&WorkerService::Release, Release(), kOfRelease);
  ExpectBounded(&WorkerService::Onboard, OfOneBlock<v1::OnboardRequest>(), kOfOnboard);
  ExpectBounded(&WorkerService::Reserve, OfOneBlock<v1::ReserveRequest>(), kOfReserve);
}

TEST_F(IdListsTest, ARefusedCallHasDoneNothing) {
  ASSERT_EQ(rig_.Put(busy_.id, 1, 2), 2);
  auto onboard = WorkerCalls::About<v1::OnboardRequest>(busy_, 1, 2);
  onboard.set_target(v1::TIER_HOST);
  const auto leased = calls_.Begin(&WorkerService::Onboard, std::move(onboard));
  calls_.Await(*leased);
  v1::ReleaseRequest release = Release();
  for (const uint64_t id : leased->response().sequences(0).blocks().lease_ids()) {
    release.add_lease_ids(id);
  }
  ASSERT_EQ(release.lease_ids_size(), 2);
  EXPECT_FALSE(StatusOf(&WorkerService::Release, With(release, kOfRelease.back(), kMost + 1)).ok());
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 2);
  EXPECT_TRUE(StatusOf(&WorkerService::Release, release).ok());
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 0);
}

TEST_F(IdListsTest, ALongListGivesWayToAnotherTenant) {
  ExpectGivesWay(&WorkerService::Commit, Commit(), kOfCommit);
  ExpectGivesWay(&WorkerService::Release, Release(), kOfRelease);
  ExpectGivesWay(&WorkerService::Onboard, OfOneBlock<v1::OnboardRequest>(), kOfOnboard);
  ExpectGivesWay(&WorkerService::Reserve, OfOneBlock<v1::ReserveRequest>(), kOfReserve);
}

TEST_F(IdListsTest, ALongListEndsWithItsSession) {
  const auto call =
      calls_.Begin(&WorkerService::Release, With(Release(), kOfRelease.front(), kMost));
  StatusOf(&WorkerService::Match, WorkerCalls::About<v1::MatchRequest>(quiet_, 1, 1));
  ASSERT_FALSE(call->is_answered());
  rig_.agent->CloseSession(busy_.id);
  calls_.Await(*call);
  rig_.agent->Audit();
}

}  // namespace
}  // namespace kvtier::testing
