// Tests a GPU pool that an operator grows and shrinks, and workers that go on meanwhile.
#include "agent/gpu/gpu_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);
constexpr uint64_t kHandle = kRegionGranularity;
constexpr uint32_t kPerHandle = kHandle / kRigBlockBytes;

// The pool has one handle, and may have four.
class GpuResizeTest : public ::testing::Test {
 protected:
  GpuResizer& resizer() { return rig_.agent->gpus().at(0).resizer(); }
  const GpuPool& pool() { return rig_.agent->gpus().at(0).pool(); }
  SlotGrants& grants() { return rig_.agent->gpus().at(0).grants(); }
  size_t handles() { return pool().handles().size(); }
  // Begins a resize to `bytes`, waits a second, and returns the progress.
  GpuResizer::Progress Resize(uint64_t bytes) {
    EXPECT_EQ(resizer().Begin(bytes), absl::OkStatus());
    rig_.Pass(absl::Seconds(1));
    rig_.agent->Audit();
    return resizer().progress();
  }
  std::vector<uint32_t> Take(SessionId session, uint32_t count) {
    return grants().Take(session, count).value_or(std::vector<uint32_t>());
  }
  // Takes all slots of the first handle, so that others get slots behind them.
  std::vector<uint32_t> TakeFirstHandle() {
    std::vector<uint32_t> slots = Take(rig_.session, kPerHandle);
    EXPECT_EQ(slots.size(), kPerHandle);
    for (const uint32_t slot : slots) EXPECT_LT(slot, kPerHandle);
    return slots;
  }
  Onboarded OnboardToGpu(SessionId session, uint64_t first, size_t count) {
    return *rig_.Run(rig_.Onboard(session, first, count, kLong, Tier::kGpu));
  }
  // Puts blocks and onboards them to the pool; returns their leases.
  std::vector<LeaseId> LeaseOnGpu(SessionId session, uint64_t first, size_t count) {
    EXPECT_EQ(rig_.Put(session, first, count), count);
    std::vector<LeaseId> leases;
    for (const LeasedBlock& block : OnboardToGpu(session, first, count).blocks) {
      leases.push_back(block.lease);
    }
    EXPECT_EQ(leases.size(), count);
    return leases;
  }

  AgentRig rig_{
      {.slots = 1024, .gpu_slots = kPerHandle, .gpu_max_slots = uint64_t{4} * kPerHandle}};
};

TEST_F(GpuResizeTest, ThePoolGrowsAndShrinksByWholeHandles) {
  GpuResizer::Progress progress = Resize(3 * kHandle + kHandle / 2);
  EXPECT_EQ(progress.bytes, 3 * kHandle);
  EXPECT_EQ(progress.target_bytes, 3 * kHandle);
  EXPECT_EQ(progress.ended, absl::OkStatus());
  EXPECT_EQ(pool().table().slots(), 3 * kPerHandle);
  EXPECT_EQ(Take(rig_.session, 4 * kPerHandle).size(), 3 * kPerHandle);
  grants().ReleaseAll(rig_.session);
  progress = Resize(kHandle);
  EXPECT_EQ(progress.bytes, kHandle);
  EXPECT_EQ(pool().table().free_slots(), kPerHandle);
  EXPECT_EQ(Resize(4 * kHandle).bytes, 4 * kHandle);
}

TEST_F(GpuResizeTest, SizesThatCannotBeAreRefusedByNameAndValue) {
  for (const uint64_t bytes : {uint64_t{0}, kHandle - 1, 5 * kHandle}) {
    const absl::Status refused = resizer().Begin(bytes);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("bytes"), HasSubstr(std::to_string(bytes))));
  }
  EXPECT_EQ(resizer().progress().target_bytes, kHandle);
  EXPECT_EQ(resizer().max_bytes(), 4 * kHandle);
}

TEST_F(GpuResizeTest, CachedBlocksBeyondTheSizeMakeWayAndOthersStay) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  rig_.agent->sessions().leases().Release(rig_.session, LeaseOnGpu(rig_.session, 10, 3));
  const std::vector<uint32_t> taken = Take(rig_.session, kPerHandle - 3);
  rig_.agent->sessions().leases().Release(rig_.session, LeaseOnGpu(rig_.session, 20, 4));
  EXPECT_EQ(rig_.agent->gpus().at(0).blocks().UnheldFrom(kPerHandle, 100).size(), 4u);
  // The smaller pool has slots to spare, so that nothing leaves ahead of need.
  const size_t spare = kPerHandle / kGpuLowWatermarkSpare;
  grants().Release(rig_.session, std::span(taken).first(spare));
  EXPECT_EQ(Resize(kHandle).bytes, kHandle);
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kGpu), 3u);
  EXPECT_EQ(rig_.Hits(rig_.session, 20, 4), 4u) << "host memory has them";
}

TEST_F(GpuResizeTest, MoreBlocksThanOneTurnEvictsAllGo) {
  constexpr size_t kBlocks = kEvictedPerTurn + 44;
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  const SessionId filler = rig_.Open(0);
  ASSERT_EQ(Take(filler, kPerHandle).size(), kPerHandle);
  rig_.agent->sessions().leases().Release(rig_.session, LeaseOnGpu(rig_.session, 1000, kBlocks));
  EXPECT_EQ(Resize(kHandle).bytes, kHandle);
  EXPECT_EQ(rig_.agent->stats().gpu.evictions, kBlocks);
}

TEST_F(GpuResizeTest, WhatAWorkerLeasedIsAwaitedAndLeasedToNobodyAnew) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  ASSERT_TRUE(rig_.agent->sessions().AttachToGpu(rig_.session).ok());
  grants().Release(rig_.session, [&] {
    std::vector<uint32_t> first = TakeFirstHandle();
    first.resize(kPerHandle - 1);
    return first;
  }());
  ASSERT_EQ(Take(rig_.session, kPerHandle - 1).size(), kPerHandle - 1);
  const std::vector<LeaseId> leases = LeaseOnGpu(rig_.session, 20, 2);
  const GpuResizer::Progress progress = Resize(kHandle);
  EXPECT_EQ(progress.bytes, 2 * kHandle);
  EXPECT_EQ(progress.target_bytes, kHandle);
  EXPECT_EQ(progress.slots_in_use, 2u);
  EXPECT_EQ(progress.workers, 1u);
  EXPECT_EQ(OnboardToGpu(rig_.Open(0), 20, 2).blocks.size(), 0u) << "else it would never end";
  EXPECT_EQ(rig_.Hits(rig_.session, 20, 2), 2u);
  rig_.agent->sessions().leases().Release(rig_.session, leases);
  EXPECT_TRUE(rig_.Run(resizer().AwaitEnd(rig_.executor.Now() + absl::Seconds(1))));
  EXPECT_EQ(handles(), 1u);
  EXPECT_EQ(resizer().progress().ended, absl::OkStatus());
}

TEST_F(GpuResizeTest, WhatAStepMayStillTouchIsAwaited) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  const SignalPage* const page = *rig_.agent->sessions().AttachToGpu(rig_.session);
  const SessionId filler = rig_.Open(0);
  ASSERT_EQ(Take(filler, kPerHandle).size(), kPerHandle);
  page->word(static_cast<size_t>(StepWord::kBegun))->store(1);
  grants().Release(rig_.session, Take(rig_.session, 1));
  EXPECT_EQ(Resize(kHandle).slots_in_use, 1u);
  EXPECT_EQ(resizer().progress().workers, 1u);
  page->word(static_cast<size_t>(StepWord::kRetired))->store(1);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(handles(), 1u);
}

TEST_F(GpuResizeTest, AResizeThatWaitsTooLongLeavesThePoolWhole) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  TakeFirstHandle();
  const std::vector<uint32_t> beyond = Take(rig_.session, 1);
  ASSERT_EQ(beyond.size(), 1u);
  ASSERT_EQ(Resize(kHandle).bytes, 2 * kHandle);
  EXPECT_EQ(Take(rig_.session, 1).size(), 0u) << "no more is handed out beyond the size";
  rig_.Pass(kGpuResizeTimeout);
  const GpuResizer::Progress progress = resizer().progress();
  EXPECT_EQ(progress.ended.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(progress.ended.message()), HasSubstr("1 slots beyond 2097152 bytes"));
  EXPECT_EQ(progress.target_bytes, 2 * kHandle);
  EXPECT_EQ(Take(rig_.session, 2 * kPerHandle).size(), kPerHandle - 1);
  EXPECT_EQ(Resize(2 * kHandle).ended, absl::OkStatus());
}

TEST_F(GpuResizeTest, ALaterResizeTakesThePlaceOfTheOneUnderWay) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  TakeFirstHandle();
  ASSERT_EQ(Take(rig_.session, 1).size(), 1u);
  ASSERT_EQ(Resize(kHandle).bytes, 2 * kHandle);
  const GpuResizer::Progress progress = Resize(3 * kHandle);
  EXPECT_EQ(progress.bytes, 3 * kHandle);
  EXPECT_EQ(progress.slots_in_use, 0u);
  EXPECT_EQ(Take(rig_.session, 4 * kPerHandle).size(), 2 * kPerHandle - 1);
}

// The device cannot allocate another handle.
TEST_F(GpuResizeTest, ADeviceThatHasNoMoreEndsTheGrowthAndSaysWhy) {
  // The emulated device makes a file for each handle, and files may not be that large now.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit shorter{.rlim_cur = kHandle / 2, .rlim_max = before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &shorter), 0);
  const GpuResizer::Progress progress = Resize(2 * kHandle);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_FALSE(progress.ended.ok());
  EXPECT_EQ(progress.bytes, kHandle);
  EXPECT_EQ(progress.target_bytes, kHandle);
  EXPECT_EQ(Resize(2 * kHandle).ended, absl::OkStatus());
}

TEST_F(GpuResizeTest, AnAgentThatStopsDoesNotWaitForIt) {
  ASSERT_EQ(Resize(2 * kHandle).bytes, 2 * kHandle);
  TakeFirstHandle();
  ASSERT_EQ(Take(rig_.session, 1).size(), 1u);
  ASSERT_EQ(Resize(kHandle).slots_in_use, 1u);
  TaskScope stopping(&rig_.executor);
  bool idle = false;
  const auto stop = [](Agent* agent, absl::Time deadline, bool* idle) -> Task<void> {
    *idle = co_await agent->Stop(deadline);
  };
  stopping.Spawn(stop(rig_.agent.get(), rig_.executor.Now() + absl::Seconds(1), &idle));
  rig_.Pass(absl::Seconds(1));
  EXPECT_TRUE(idle);
  EXPECT_EQ(resizer().Begin(kHandle).code(), absl::StatusCode::kUnavailable);
}

// Whatever the order of operations, the bytes of leased blocks and of granted slots stay the same.
TEST_F(GpuResizeTest, NothingThatIsHeldChangesWhileThePoolDoes) {
  std::mt19937_64 random(testing::TestSeed());
  std::byte* const memory = pool().region()->address();
  const DomainId domain = rig_.NameRun(rig_.session, 1, 1).domain;
  std::map<uint32_t, std::byte> granted;  // Byte that the worker wrote in each slot.
  std::map<uint64_t, std::pair<uint64_t, LeaseId>> leased;  // Offset and lease of each block.
  absl::Time forget = rig_.executor.Now() + kLeaseDuration / 2;
  size_t changes = 0;
  uint64_t version = pool().version();
  for (int step = 0; step < 400; ++step) {
    switch (random() % 6) {
      case 0:
        ASSERT_EQ(resizer().Begin((1 + random() % 4) * kHandle), absl::OkStatus());
        break;
      case 1:
        for (const uint32_t slot : Take(rig_.session, 1 + random() % kPerHandle)) {
          ASSERT_TRUE(granted.emplace(slot, static_cast<std::byte>(random())).second);
          memory[slot * kRigBlockBytes] = granted[slot];
        }
        break;
      case 2: {
        std::vector<uint32_t> given;
        std::erase_if(granted, [&](const auto& slot) {
          if (random() % 3 == 0) return false;
          given.push_back(slot.first);
          return true;
        });
        grants().Release(rig_.session, given);
        break;
      }
      case 3: {
        const uint64_t first = 1 + random() % 200;
        rig_.Put(rig_.session, first, 1);
        for (const LeasedBlock& block : OnboardToGpu(rig_.session, first, 1).blocks) {
          if (leased.emplace(first, std::pair(block.offset, block.lease)).second) continue;
          rig_.agent->sessions().leases().Release(rig_.session, std::vector<LeaseId>{block.lease});
        }
        break;
      }
      case 4:
        rig_.Pass(absl::Milliseconds(random() % 300));
        break;
      default:
        break;
    }
    if (rig_.executor.Now() > forget) {
      for (const auto& [block, lease] : leased) {
        rig_.agent->sessions().leases().Release(rig_.session, std::vector<LeaseId>{lease.second});
      }
      leased.clear();
      forget = rig_.executor.Now() + kLeaseDuration / 2;
    }
    for (const auto& [slot, byte] : granted) ASSERT_EQ(memory[slot * kRigBlockBytes], byte);
    for (const auto& [block, lease] : leased) {
      ASSERT_TRUE(testing::HoldsBlock(AgentRig::Seed(domain), TestEngineKey(block),
                                      {memory + lease.first, kRigBlockBytes}));
    }
    changes += std::exchange(version, pool().version()) != pool().version() ? 1 : 0;
    rig_.agent->Audit();
  }
  EXPECT_GT(changes, 2u);
}

}  // namespace
}  // namespace kvtier
