// Tests readers on an arena that is always full, with the real threads of an agent in this process:
// ThreadSanitizer then sees each byte that a worker writes, the agent copies and another worker
// reads. tests/integration/full_arena_test.cc does the same with programs. KVTIER_ONBOARDS: how
// many blocks are read (20,000).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "core/byte_threads.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/copy_sum.h"
#include "core/thread_executor.h"
#include "tests/testing/blocks.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::TestEngineKey;

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kArenaBlocks = 128;
constexpr size_t kPutAtOnce = 16;
constexpr size_t kReadAtOnce = 16;
constexpr uint64_t kContent = 1;  // Seed of the blocks' bytes.
constexpr absl::Duration kStopTimeout = absl::Seconds(30);

uint64_t Onboards() {
  return testing::FromEnvironment("KVTIER_ONBOARDS", testing::kSanitized ? 5'000 : 20'000);
}

// Worker is one worker of the agent: a session, and the memory that it was handed.
struct Worker {
  SessionId session{};
  std::span<std::byte> write;
};

// The tests run with and without staging regions.
class FullArenaThreadsTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::vector<TenantTable::Entry> tenants = {{.name = "default"}};
    Agent::Options options{.node = *NodeId::FromString("threads"),
                           .epoch = {7},
                           .address = "threads:7400",
                           .tenants = *TenantTable::Create(tenants),
                           .host_bytes = kArenaBlocks * kBlockBytes,
                           .slab_bytes = 4 * kBlockBytes,
                           .staging_bytes = GetParam() ? 2 * kPutAtOnce * kBlockBytes : 0,
                           .host_scrub_bytes_per_second = uint64_t{64} << 20};
    agent_ = *Agent::Create(std::move(options), {.executor = &executor_, .byte_threads = &bytes_});
    KVT_CHECK(AwaitOn(&executor_, agent_->scope(), agent_->Start()).ok());
  }
  void TearDown() override {
    TaskScope stopping(&executor_);
    EXPECT_TRUE(AwaitOn(&executor_, &stopping, agent_->Stop(executor_.Now() + kStopTimeout)));
    executor_.Stop();
  }

  Worker Open() {
    return CallOn(&executor_, [this] {
      const SessionToken token{static_cast<uint8_t>(++opened_)};
      const Tenant& tenant = agent_->options().tenants.OfDomain(DomainId{0});
      Worker worker{.session = *agent_->sessions().Open(SessionTenants::Own(tenant), token),
                    .write = agent_->host().arena(tenant.domain).bytes()};
      KVT_CHECK(*agent_->sessions().table().AddSpace(worker.session,
                                                     testing::TestSpace(kBlockBytes)) == 1);
      if (GetParam()) {
        worker.write =
            (*agent_->sessions().staging().RegionOf(worker.session, tenant.domain))->bytes();
      }
      return worker;
    });
  }
  BlockRun NameRun(SessionId session, const std::vector<EngineKey>& keys) {
    BlockRun run = *agent_->sessions().table().NameRun(session, 1, std::nullopt, keys);
    run.is_set = true;
    return run;
  }

  // Puts blocks [first, first + kPutAtOnce), every second one with its sum; returns how many were
  // put.
  size_t Put(const Worker& worker, uint64_t first) {
    std::vector<EngineKey> keys;
    for (uint64_t i = 0; i < kPutAtOnce; ++i) keys.push_back(TestEngineKey(first + i));
    const Reserved reserved = CallOn(&executor_, [&] {
      return *agent_->flows().putter.Reserve(NameRun(worker.session, keys), Tier::kHost);
    });
    std::vector<ReservationId> ids;
    std::vector<std::pair<ReservationId, PayloadSum>> sums;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (reserved.blocks[i].state != ReservedBlock::State::kReserved) continue;
      const auto slot = worker.write.subspan(reserved.blocks[i].offset, kBlockBytes);
      testing::FillBlock(kContent, keys[i], slot);
      ids.push_back(reserved.blocks[i].id);
      if (i % 2 == 0) sums.emplace_back(ids.back(), SumPayload(slot));
    }
    CallOn(&executor_, [&] {
      for (const auto& [id, sum] : sums) {
        agent_->sessions().reservations().NoteSum(worker.session, id, sum);
      }
      return true;
    });
    return AwaitOn(&executor_, agent_->scope(),
                   agent_->flows().putter.Commit(worker.session, std::move(ids)));
  }

  void Write() {
    const Worker worker = Open();
    while (read_ < Onboards() && !HasFailure()) {
      if (Put(worker, written_) > 0) written_ += kPutAtOnce;
    }
  }

  // Reads sets of blocks that were written lately, half of which are evicted already.
  void Read(uint64_t seed) {
    const Worker worker = Open();
    const std::span<const std::byte> arena = agent_->host().arena(DomainId{0}).bytes();
    std::mt19937_64 random(seed);
    std::vector<std::byte> copy(kBlockBytes);
    while (read_ < Onboards() && !HasFailure()) {
      const uint64_t end = written_;
      const uint64_t begin = end - std::min(end, 2 * kArenaBlocks);
      std::vector<EngineKey> keys;
      for (size_t i = 0; i < kReadAtOnce; ++i) {
        keys.push_back(TestEngineKey(begin + random() % (end - begin)));
      }
      OnboardRequest request{
          .run = CallOn(&executor_, [&] { return NameRun(worker.session, keys); }),
          .target = Tier::kHost,
          .deadline = executor_.Now() + absl::Milliseconds(100)};
      const Onboarded hit = *AwaitOn(&executor_, agent_->scope(),
                                     agent_->flows().onboarder.Onboard(std::move(request)));
      std::vector<LeaseId> leases;
      for (const LeasedBlock& block : hit.blocks) {
        const PayloadSum sum = CopyAndSum(copy, arena.subspan(block.offset, kBlockBytes));
        if (executor_.Now() < hit.lease_deadline) {
          EXPECT_EQ(sum, block.sum);
          EXPECT_TRUE(testing::HoldsBlock(kContent, keys[block.index], copy));
          // The block is also checked in place, where instrumented code reads each byte.
          EXPECT_TRUE(testing::HoldsBlock(kContent, keys[block.index],
                                          arena.subspan(block.offset, kBlockBytes)));
        }
        leases.push_back(block.lease);
      }
      CallOn(&executor_, [&] {
        agent_->sessions().leases().Release(worker.session, leases);
        return true;
      });
      read_ += hit.blocks.size();
      missed_ += keys.size() - hit.blocks.size();
    }
  }

  ThreadExecutor executor_{"decisions"};
  BytePool bytes_{&executor_, "bytes", 2};
  std::unique_ptr<Agent> agent_;
  uint64_t opened_ = 0;  // Counted on the executor.
  std::atomic<uint64_t> written_ = 0;
  std::atomic<uint64_t> read_ = 0;
  std::atomic<uint64_t> missed_ = 0;
};

TEST_P(FullArenaThreadsTest, EveryBlockReadIsTheOneThatWasAskedFor) {
  {
    const Worker first = Open();
    while (written_ < 2 * kArenaBlocks) {
      ASSERT_EQ(Put(first, written_), kPutAtOnce);
      written_ += kPutAtOnce;
    }
    CallOn(&executor_, [&] { return agent_->CloseSession(first.session); });
  }
  std::thread writing([this] { Write(); });
  std::thread reading([this] { Read(testing::TestSeed()); });
  Read(testing::TestSeed() + 1);
  reading.join();
  writing.join();
  EXPECT_GE(read_, Onboards());
  // The arena was full and slots were reused under the readers.
  EXPECT_GT(missed_, 0);
  EXPECT_GT(CallOn(&executor_, [&] { return agent_->stats().host.evictions; }), kArenaBlocks);
  EXPECT_EQ(CallOn(&executor_, [&] { return agent_->stats().host.verify_failures; }), 0);
}

INSTANTIATE_TEST_SUITE_P(WorkerMemory, FullArenaThreadsTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Staged" : "Direct"; });

}  // namespace
}  // namespace kvtier
