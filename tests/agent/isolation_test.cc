// Tests that a tenant that asks for another one's blocks, tickets and ids, by every call that
// workers have, is answered as if there were none: in the same bytes, after the same work, and
// nothing changes. Timing is proven on real programs by `scripts/bench tenants --only isolation`;
// here work is counted, in virtual time.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/agent/agent_rig.h"
#include "tests/agent/residency_rig.h"
#include "tests/agent/worker_calls.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {
namespace {

// Number of times that each call asks for another tenant's block, and for one that no tenant has.
constexpr uint64_t kLookUps = kSanitized ? 1'000 : 10'000;
constexpr uint64_t kTheirs = 1'000'000;  // First key of the other tenant's blocks.
constexpr uint64_t kNobodys = 9'000'000;
constexpr uint64_t kOwn = 5'000'000;
constexpr uint64_t kOwnBlocks = 64;
constexpr uint64_t kGroup = 64;  // Blocks of the other tenant in each state.
constexpr uint32_t kTtlMs = 300'000;

using Counted = std::array<uint64_t, 9>;

enum class Disk { kNone, kOne };

// Answer to one call, and the time that it took.
struct Answer {
  std::string bytes;  // Status and message, without ids, places and deadlines.
  uint64_t turns = 0;
  absl::Duration time;
  Counted counted{};  // Growth of the agent's own counters.

  friend bool operator==(const Answer&, const Answer&) = default;
  friend void PrintTo(const Answer& answer, std::ostream* out) {
    *out << answer.turns << " turns, " << absl::FormatDuration(answer.time) << ": " << answer.bytes;
    for (const uint64_t counted : answer.counted) *out << " " << counted;
  }
};

std::string ToText(const grpc::Status& status, const google::protobuf::MessageLite& message) {
  return absl::StrCat(status.error_code(), " ", status.error_message(), "|",
                      message.SerializeAsString());
}

class IsolationTest : public ::testing::TestWithParam<Disk> {
 protected:
  IsolationTest() {
    them_ = *calls_.Open(0);
    us_ = *calls_.Open(1);
    PutTheirs();
    rig_.Pass(absl::Milliseconds(300));  // Everything that was begun has ended by then.
  }

  // Puts the other tenant's blocks, a group of them in each state that a block may be in.
  void PutTheirs() {
    const auto put = [this](uint64_t first) {
      const size_t count = GetParam() == Disk::kNone ? rig_.Put(them_.id, first, kGroup)
                                                     : rig_.PutOnDisk(them_.id, first, kGroup);
      KVT_CHECK(count == kGroup);
    };
    // These blocks are on the disk alone, or were evicted lately.
    put(kTheirs);
    rig_.EvictHost();
    KVT_CHECK(rig_.Put(us_.id, kOwn, kOwnBlocks) == kOwnBlocks);
    for (uint64_t group = 1; group < kGroups - 1; ++group) put(kTheirs + group * kGroup);
    const auto keep = calls_.Begin(&WorkerService::Keep, KeepOf(them_, kTheirs + kGroup, kGroup));
    calls_.Await(*keep);
    kept_ = keep->response().kept_id();
    KVT_CHECK(kept_ != 0);
    auto take =
        calls_.Begin(&WorkerService::TakeTicket, TicketOf(them_, kTheirs + 2 * kGroup, kGroup));
    calls_.Await(*take);
    ticket_ = take->response().ticket();
    KVT_CHECK(ticket_.size() == 16);
    const auto onboard =
        calls_.Begin(&WorkerService::Onboard, OnboardOf(them_, kTheirs + 3 * kGroup, kGroup));
    calls_.Await(*onboard);
    const v1::LeasedBlocks& leased = onboard->response().sequences(0).blocks();
    leases_ = {leased.lease_ids().begin(), leased.lease_ids().end()};
    KVT_CHECK(leases_.size() == kGroup);
    // These blocks are reserved and not committed yet.
    reservations_ = rig_.Reserve(them_.id, kTheirs + (kGroups - 1) * kGroup, kGroup);
    KVT_CHECK(reservations_.size() == kGroup);
  }

  static v1::KeepRequest KeepOf(const WorkerCalls::Worker& worker, uint64_t first, size_t count) {
    auto request = WorkerCalls::About<v1::KeepRequest>(worker, first, count);
    request.set_ttl_ms(kTtlMs);
    request.set_timeout_ms(100);
    return request;
  }
  static v1::TakeTicketRequest TicketOf(const WorkerCalls::Worker& worker, uint64_t first,
                                        size_t count) {
    auto request = WorkerCalls::About<v1::TakeTicketRequest>(worker, first, count);
    request.set_timeout_ms(100);
    request.set_redemptions(1);
    request.set_lifetime_ms(60'000);
    return request;
  }
  static v1::OnboardRequest OnboardOf(const WorkerCalls::Worker& worker, uint64_t first,
                                      size_t count) {
    auto request = WorkerCalls::About<v1::OnboardRequest>(worker, first, count);
    request.set_target(v1::TIER_HOST);
    request.set_timeout_ms(100);
    return request;
  }

  Counted Counters() const {
    const AgentStats& stats = rig_.agent->stats();
    return {stats.host.hits,       stats.host.misses,   stats.host.inserts,
            stats.host.evictions,  stats.disk_misses,   stats.deadline_misses,
            stats.offload.written, stats.host.declined, stats.host.verified};
  }
  // Measures a call: its turns, its time and what it counts. `text` makes it and returns its
  // answer.
  Answer Asked(const std::function<std::string()>& text) {
    const uint64_t turns = rig_.time.events_run();
    const absl::Time began = rig_.time.Now();
    const Counted before = Counters();
    Answer answer{.bytes = text()};
    answer.turns = rig_.time.events_run() - turns;
    answer.time = rig_.time.Now() - began;
    const Counted after = Counters();
    for (size_t i = 0; i < after.size(); ++i) answer.counted[i] = after[i] - before[i];
    return answer;
  }
  template <typename Call>
  std::string TextOf(const std::unique_ptr<Call>& call) {
    calls_.Await(*call);
    return ToText(call->status(), call->response());
  }

  // Calls that name a block, by name. Each asks `worker`'s agent for one key.
  using Question = std::function<std::string(const WorkerCalls::Worker&, uint64_t)>;
  std::map<std::string, Question> QuestionsAboutBlocks();
  std::string Reserve(const WorkerCalls::Worker& worker, uint64_t key);
  std::string OnboardParts(const WorkerCalls::Worker& worker, uint64_t key);
  std::string Probe(const WorkerCalls::Worker& worker, uint64_t key);
  std::string Delete(const WorkerCalls::Worker& worker, uint64_t key, bool descendants);

  // Calls that name other ids of the other tenant, such as leases; the number chooses the id, and
  // `real` says whether the id exists.
  using IdQuestion = std::function<std::string(uint64_t, bool real)>;
  std::map<std::string, IdQuestion> QuestionsAboutIds();
  v1::ReleaseRequest ReleaseOf(uint64_t number, bool real) const;

  // Returns whether the owner of a block gets another answer about it than about an absent block.
  bool IsTold(const Question& ask, uint64_t key) { return ask(them_, key) != ask(them_, kNobodys); }

  // Describes the blocks that the other tenant has and what it may see of them.
  std::string StateOfThem() {
    v1::ListKeptRequest list;
    list.set_session_token(them_.token);
    std::string state = TextOf(calls_.Begin(&WorkerService::ListKept, list));
    for (const auto tier : {Tier::kHost, Tier::kDisk}) {
      absl::StrAppend(&state, " ", rig_.agent->index().blocks_in(tier));
    }
    return absl::StrCat(state, " ", rig_.agent->index().pinned_bytes(), " ",
                        rig_.agent->flows().tickets.blocks(), " ",
                        rig_.agent->sessions().leases().size(), " ",
                        rig_.agent->sessions().reservations().size());
  }

  static constexpr uint64_t kGroups = 6;
  AgentRig rig_{{.slots = 8 * kGroup, .disk = GetParam() == Disk::kOne, .segments = 256}};
  WorkerCalls calls_{&rig_};
  WorkerCalls::Worker them_;
  WorkerCalls::Worker us_;
  uint64_t kept_ = 0;
  std::string ticket_;
  std::vector<uint64_t> leases_;
  std::vector<ReservationId> reservations_;
};

// Reserves a slot, which succeeds if the tenant does not have the block, and gives the slot back.
std::string IsolationTest::Reserve(const WorkerCalls::Worker& worker, uint64_t key) {
  auto request = WorkerCalls::About<v1::ReserveRequest>(worker, key, 1);
  request.set_target(v1::TIER_HOST);
  const auto call = calls_.Begin(&WorkerService::Reserve, std::move(request));
  calls_.Await(*call);
  v1::ReserveResponse& response = call->response();
  v1::ReleaseRequest release;
  release.set_session_token(worker.token);
  for (v1::ReservedBlock& block : *response.mutable_blocks()) {
    if (block.reservation_id() != 0) release.add_reservation_ids(block.reservation_id());
    block.clear_reservation_id();
    block.clear_offset();
  }
  response.clear_deadline_ns();
  return absl::StrCat(ToText(call->status(), response),
                      TextOf(calls_.Begin(&WorkerService::Release, std::move(release))));
}

std::string IsolationTest::OnboardParts(const WorkerCalls::Worker& worker, uint64_t key) {
  const auto call = calls_.BeginParts(OnboardOf(worker, key, 1));
  calls_.Await(*call);
  std::string text;
  for (v1::OnboardPart& part : call->parts()) {
    part.clear_lease_deadline_ns();
    absl::StrAppend(&text, ToText(call->status(), part));
  }
  return text;
}

// Looks into the table that the tenant's workers map.
std::string IsolationTest::Probe(const WorkerCalls::Worker& worker, uint64_t key) {
  const BlockRun run = rig_.NameRun(worker.id, key, 1);
  const auto view = ViewOf(*rig_.agent->residency().table(run.domain));
  return absl::StrCat(static_cast<int>(view->Look(run.keys[0])));
}

std::string IsolationTest::Delete(const WorkerCalls::Worker& worker, uint64_t key,
                                  bool descendants) {
  auto request = WorkerCalls::About<v1::DeleteRequest>(worker, key, 1);
  request.set_descendants(descendants);
  return TextOf(calls_.Begin(&WorkerService::Delete, std::move(request)));
}

std::map<std::string, IsolationTest::Question> IsolationTest::QuestionsAboutBlocks() {
  using Worker = WorkerCalls::Worker;
  std::map<std::string, Question> questions;
  questions["Match"] = [this](const Worker& worker, uint64_t key) {
    return TextOf(
        calls_.Begin(&WorkerService::Match, WorkerCalls::About<v1::MatchRequest>(worker, key, 1)));
  };
  questions["Onboard"] = [this](const Worker& worker, uint64_t key) {
    const auto call = calls_.Begin(&WorkerService::Onboard, OnboardOf(worker, key, 1));
    calls_.Await(*call);
    call->response().clear_lease_deadline_ns();
    return ToText(call->status(), call->response());
  };
  questions["OnboardParts"] = [this](const Worker& worker, uint64_t key) {
    return OnboardParts(worker, key);
  };
  questions["TakeTicket"] = [this](const Worker& worker, uint64_t key) {
    return TextOf(calls_.Begin(&WorkerService::TakeTicket, TicketOf(worker, key, 1)));
  };
  questions["Prefetch"] = [this](const Worker& worker, uint64_t key) {
    return TextOf(calls_.Begin(&WorkerService::Prefetch,
                               WorkerCalls::About<v1::PrefetchRequest>(worker, key, 1)));
  };
  questions["Reserve"] = [this](const Worker& worker, uint64_t key) {
    return Reserve(worker, key);
  };
  questions["Advise"] = [this](const Worker& worker, uint64_t key) {
    auto request = WorkerCalls::About<v1::AdviseRequest>(worker, key, 1);
    request.mutable_sequences(0)->mutable_reuse_hint()->set_will_not_return(true);
    return TextOf(calls_.Begin(&WorkerService::Advise, std::move(request)));
  };
  questions["Keep"] = [this](const Worker& worker, uint64_t key) {
    const auto call = calls_.Begin(&WorkerService::Keep, KeepOf(worker, key, 1));
    calls_.Await(*call);
    call->response().clear_ttl_left_ms();
    return ToText(call->status(), call->response());
  };
  questions["residency"] = [this](const Worker& worker, uint64_t key) {
    return Probe(worker, key);
  };
  questions["Delete"] = [this](const Worker& worker, uint64_t key) {
    return Delete(worker, key, /*descendants=*/false);
  };
  questions["Delete with descendants"] = [this](const Worker& worker, uint64_t key) {
    return Delete(worker, key, /*descendants=*/true);
  };
  return questions;
}

// Numbers that were given to nobody stand for ids that do not exist.
v1::ReleaseRequest IsolationTest::ReleaseOf(uint64_t number, bool real) const {
  constexpr uint64_t kUnused = uint64_t{1} << 40;
  const size_t i = number % kGroup;
  v1::ReleaseRequest request;
  request.set_session_token(us_.token);
  const uint64_t lease = real ? leases_[i] : kUnused + i;
  request.add_lease_ids(lease);
  request.add_damaged_lease_ids(lease);
  request.add_reservation_ids(real ? static_cast<uint64_t>(reservations_[i]) : kUnused + i);
  request.add_tickets(real ? ticket_ : std::string(16, static_cast<char>(number)));
  return request;
}

std::map<std::string, IsolationTest::IdQuestion> IsolationTest::QuestionsAboutIds() {
  std::map<std::string, IdQuestion> questions;
  questions["RedeemTicket"] = [this](uint64_t number, bool real) {
    v1::RedeemTicketRequest request;
    request.set_session_token(us_.token);
    request.set_ticket(real ? ticket_ : std::string(16, static_cast<char>(number)));
    request.add_space_ids(us_.space);
    return TextOf(calls_.Begin(&WorkerService::RedeemTicket, std::move(request)));
  };
  questions["Release"] = [this](uint64_t number, bool real) {
    return TextOf(calls_.Begin(&WorkerService::Release, ReleaseOf(number, real)));
  };
  questions["Commit"] = [this](uint64_t number, bool real) {
    v1::CommitRequest request;
    request.set_session_token(us_.token);
    request.add_reservation_ids(ReleaseOf(number, real).reservation_ids(0));
    return TextOf(calls_.Begin(&WorkerService::Commit, std::move(request)));
  };
  questions["EndKept"] = [this](uint64_t number, bool real) {
    v1::EndKeptRequest request;
    request.set_session_token(us_.token);
    request.set_kept_id(real ? kept_ : (uint64_t{1} << 40) + number);
    return TextOf(calls_.Begin(&WorkerService::EndKept, std::move(request)));
  };
  // EndKept of all and ListKept see only the caller's own prefixes, not those that another tenant
  // keeps.
  questions["EndKept of all, and ListKept"] = [this](uint64_t /*number*/, bool /*real*/) {
    v1::EndKeptRequest end;
    end.set_session_token(us_.token);
    v1::ListKeptRequest list;
    list.set_session_token(us_.token);
    return absl::StrCat(TextOf(calls_.Begin(&WorkerService::EndKept, std::move(end))),
                        TextOf(calls_.Begin(&WorkerService::ListKept, std::move(list))));
  };
  return questions;
}

TEST_P(IsolationTest, AnothersBlocksAreMissesLikeAnyOther) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const std::string before = StateOfThem();
  for (const auto& [name, ask] : QuestionsAboutBlocks()) {
    SCOPED_TRACE(absl::StrCat(name, ", seed ", seed));
    const Answer miss = Asked([&] { return ask(us_, kNobodys); });
    for (uint64_t i = 0; i < kLookUps; ++i) {
      const uint64_t number = random() % (kGroups * kGroup);
      const bool theirs_first = random() % 2 == 0;
      for (const bool theirs : {theirs_first, !theirs_first}) {
        const uint64_t key = (theirs ? kTheirs : kNobodys) + number;
        ASSERT_EQ(Asked([&] { return ask(us_, key); }), miss)
            << (theirs ? "theirs" : "nobody's") << ", number " << number;
      }
    }
  }
  EXPECT_EQ(StateOfThem(), before);
  rig_.agent->Audit();
}

TEST_P(IsolationTest, AnothersTicketsAndIdsAreUnknownLikeAnyOther) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const std::string before = StateOfThem();
  for (const auto& [name, ask] : QuestionsAboutIds()) {
    SCOPED_TRACE(absl::StrCat(name, ", seed ", seed));
    const Answer unknown = Asked([&] { return ask(0, /*real=*/false); });
    for (uint64_t i = 0; i < kLookUps; ++i) {
      const bool real_first = random() % 2 == 0;
      for (const bool real : {real_first, !real_first}) {
        ASSERT_EQ(Asked([&] { return ask(i, real); }), unknown)
            << (real ? "real " : "unused ") << i;
      }
    }
  }
  EXPECT_EQ(StateOfThem(), before);
  rig_.agent->Audit();
}

// Without this test the two tests above would prove nothing.
TEST_P(IsolationTest, TheSameQuestionsFromTheirOwnerAreAnsweredOtherwise) {
  const std::map<std::string, Question> questions = QuestionsAboutBlocks();
  // The blocks are in host memory, and nothing holds them. They are dropped from the last to the
  // first, because a drop takes the following blocks along.
  uint64_t key = kTheirs + 4 * kGroup + questions.size();
  for (const auto& [name, ask] : questions) {
    if (absl::StartsWith(name, "Delete")) continue;
    EXPECT_TRUE(IsTold(ask, --key)) << name;
  }
  EXPECT_TRUE(IsTold(questions.at("Delete with descendants"), --key));
  EXPECT_TRUE(IsTold(questions.at("Delete"), --key));
}

INSTANTIATE_TEST_SUITE_P(All, IsolationTest, ::testing::Values(Disk::kNone, Disk::kOne),
                         [](const ::testing::TestParamInfo<Disk>& info) {
                           return info.param == Disk::kNone ? "MemoryAlone" : "WithADisk";
                         });

}  // namespace
}  // namespace kvtier::testing
