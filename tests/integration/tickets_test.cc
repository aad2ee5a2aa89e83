// Tests tickets between real processes: whoever dies, nothing stays held and no wrong byte is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/testing/child_process.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::ElementsAre;

constexpr Blocks kPrefix = {.first = 40, .count = 8};
constexpr absl::Duration kPatience = absl::Seconds(10);

class TicketProcessesTest : public ::testing::Test {
 protected:
  PinTicket Take(uint32_t redemptions, absl::Duration lifetime = absl::Minutes(1)) {
    const std::vector<EngineKey> keys = scheduler_->KeysOf(kPrefix);
    const KeySequence run{.space = scheduler_->space(), .keys = keys};
    return *scheduler_->client().TakeTicket(std::span(&run, 1),
                                            {.redemptions = redemptions, .lifetime = lifetime});
  }
  static OnboardedBlocks Redeem(TestWorker& worker, const TicketId& id, uint32_t rank) {
    const SpaceHandle space = worker.space();
    auto all = worker.client().Redeem(id, rank, std::span(&space, 1));
    EXPECT_TRUE(all.ok() && all->size() == 1) << all.status();
    return std::move((*all)[0]);
  }
  // Waits until nobody holds anything any more.
  bool AwaitNothingHeld() {
    return Await(kPatience, [&] {
      const v1::AgentStatusResponse status = agent_.Status();
      return status.tickets() == 0 && status.ticket_blocks() == 0 && status.leases() == 0 &&
             agent_.TierStatus(Tier::kHost).pinned_bytes() == 0;
    });
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ =
      cluster_.StartAgent("node", {{"host_bytes", "16MiB"}, {"slab_bytes", "1MiB"}});
  std::unique_ptr<TestWorker> scheduler_ =
      std::make_unique<TestWorker>(TestWorkerOptions{.socket_dir = agent_.socket_dir()});
  TestWorker first_{{.socket_dir = agent_.socket_dir()}};
  TestWorker second_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(TicketProcessesTest, EachRankLoadsWhatASchedulerThatIsGoneHadBrought) {
  ASSERT_EQ(scheduler_->Put(kPrefix), kPrefix.count);
  agent_.Evict(Tier::kHost);
  const PinTicket ticket = Take(2);
  ASSERT_TRUE(ticket.id.has_value());
  EXPECT_THAT(ticket.sequences[0].key_indices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(ticket.sequences[0].missed, MissReason::kNone);
  scheduler_.reset();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    TestWorker& worker = rank == 0 ? first_ : second_;
    const OnboardedBlocks hit = Redeem(worker, *ticket.id, rank);
    ASSERT_EQ(hit.size(), kPrefix.count);
    EXPECT_TRUE(worker.Proves(hit, kPrefix.first) && hit.valid());
    EXPECT_EQ(hit.key_index(7), 7);
    std::vector<std::byte> copy(hit.bytes(0).size());
    const Piece piece(copy);
    EXPECT_EQ(hit.CopyOut(0, {&piece, 1}), absl::OkStatus());
    EXPECT_TRUE(Redeem(worker, *ticket.id, rank).empty()) << "a rank redeems once";
  }
  EXPECT_TRUE(AwaitNothingHeld());
}

TEST_F(TicketProcessesTest, AfterTheAgentsRestartAnOldTicketIsAMiss) {
  ASSERT_EQ(scheduler_->Put(kPrefix), kPrefix.count);
  const PinTicket ticket = Take(1);
  agent_.Kill();
  EXPECT_EQ(Redeem(first_, *ticket.id, 0).missed(), MissReason::kUnreachable);
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(first_.AwaitConnected());
  EXPECT_TRUE(Redeem(first_, *ticket.id, 0).empty());
  EXPECT_TRUE(AwaitNothingHeld());
}

TEST_F(TicketProcessesTest, WhatIsNeverRedeemedOrGivenBackIsFreeSoon) {
  ASSERT_EQ(scheduler_->Put(kPrefix), kPrefix.count);
  const PinTicket late = Take(2, absl::Milliseconds(1));
  const PinTicket given_back = Take(2);
  scheduler_->client().ReleaseTicket(*given_back.id);
  EXPECT_TRUE(AwaitNothingHeld());
  EXPECT_TRUE(Redeem(first_, *late.id, 0).empty());
  EXPECT_TRUE(Redeem(first_, *given_back.id, 0).empty());
}

// Ended waits for the value with which a submitted call ends.
template <typename Result>
class Ended {
 public:
  auto Sink() {
    return [this](Result result) {
      result_ = std::move(result);
      done_.Notify();
    };
  }
  Result Wait() {
    done_.WaitForNotification();
    return std::move(result_);
  }

 private:
  Result result_;
  absl::Notification done_;
};

TEST_F(TicketProcessesTest, TicketsAndDeletionsAreSubmittedToo) {
  ASSERT_EQ(scheduler_->Put(kPrefix), kPrefix.count);
  const std::vector<EngineKey> keys = scheduler_->KeysOf(kPrefix);
  const KeySequence run{.space = scheduler_->space(), .keys = keys, .max_tokens = 16 * 5};
  Ended<PinTicket> taken;
  ASSERT_EQ(scheduler_->client().SubmitTakeTicket(std::span(&run, 1), {}, taken.Sink()),
            absl::OkStatus());
  const PinTicket ticket = taken.Wait();
  ASSERT_TRUE(ticket.id.has_value());
  EXPECT_EQ(ticket.sequences[0].key_indices.size(), 5);
  const SpaceHandle space = first_.space();
  {
    Ended<std::vector<OnboardedBlocks>> redeemed;
    ASSERT_EQ(first_.client().SubmitRedeem(*ticket.id, 0, std::span(&space, 1), std::nullopt,
                                           redeemed.Sink()),
              absl::OkStatus());
    const std::vector<OnboardedBlocks> hits = redeemed.Wait();
    ASSERT_EQ(hits.size(), 1);
    ASSERT_EQ(hits[0].size(), 5);
    EXPECT_TRUE(first_.Proves(hits[0], kPrefix.first) && hits[0].valid());
  }
  EXPECT_TRUE(AwaitNothingHeld());
  Ended<DeletedBlocks> deleted;
  ASSERT_EQ(scheduler_->client().SubmitDelete(std::span(&run, 1), std::nullopt, deleted.Sink()),
            absl::OkStatus());
  const DeletedBlocks blocks = deleted.Wait();
  EXPECT_TRUE(blocks.answered);
  EXPECT_EQ(blocks.deleted, kPrefix.count) << "what deletes takes no notice of max_tokens";
  // The client refuses invalid requests at once, without a call.
  EXPECT_EQ(scheduler_->client()
                .SubmitTakeTicket(std::span(&run, 1), {.redemptions = 65}, taken.Sink())
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(first_.client().SubmitRedeem(*ticket.id, 0, {}, std::nullopt, {}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TicketProcessesTest, ACProgramTakesOneAndRedeemsIt) {
  const std::string log = absl::StrCat(cluster_.run_dir(), "/c.log");
  const auto program = *ChildProcess::Start({ProgramPath("c_tickets"), agent_.socket_dir()}, log);
  EXPECT_EQ(program->Wait(Patience(absl::Seconds(30))), 0) << FileTail(log, 400);
  EXPECT_TRUE(AwaitNothingHeld());
}

TEST_F(TicketProcessesTest, WhatCannotBeIsRefusedByName) {
  const std::vector<EngineKey> keys = scheduler_->KeysOf(kPrefix);
  const KeySequence run{.space = scheduler_->space(), .keys = keys};
  const auto taken = [&](const TicketOptions& options) {
    return std::string(
        scheduler_->client().TakeTicket(std::span(&run, 1), options).status().message());
  };
  EXPECT_EQ(taken({.redemptions = 0}), "redemptions is 0; must be 1 to 64");
  EXPECT_EQ(taken({.redemptions = 65}), "redemptions is 65; must be 1 to 64");
  EXPECT_EQ(taken({.lifetime = absl::ZeroDuration()}), "lifetime is 0; must be 1ms to 1m");
  EXPECT_EQ(taken({.lifetime = absl::Seconds(61)}), "lifetime is 1m1s; must be 1ms to 1m");
  EXPECT_EQ(first_.client().Redeem(TicketId{}, 0, {}).status().message(),
            "0 spaces in one call; must be 1 to 256");
}

}  // namespace
}  // namespace kvtier::testing
