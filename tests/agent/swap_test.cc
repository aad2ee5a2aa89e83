// Tests sequences that leave the GPU pool for host memory and come back: their bytes, and what
// becomes of slots and host memory when a swap fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/agent/swap_rig.h"

namespace kvtier::testing {
namespace {

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;

class SwapTest : public SwapRig {};

TEST_F(SwapTest, ASequenceGoesOutAndComesBackWithItsBytes) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 5);
  EXPECT_EQ(used_slots(), 0u) << "the slots are given back";
  EXPECT_EQ(used_host(), 5u);
  EXPECT_EQ(swapped().UseOf(domain()),
            (SwappedSequences::Use{.sequences = 1, .blocks = 5, .bytes = 5 * kRigBlockBytes}));
  // Other sequences use the pool meanwhile.
  gpu().grants().Release(rig_.session, Fill(rig_.session, 500, 12));
  const In slots = SwapIn(rig_.session, id);
  ASSERT_EQ(slots.status(), absl::OkStatus());
  EXPECT_EQ(slots->size(), 5u);
  EXPECT_TRUE(Holds(*slots, 100));
  EXPECT_EQ(used_host(), 0u);
  EXPECT_EQ(gpu().grants().size(), 5u);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(swapped().CountsOf(domain()).swapped_out, 1u);
  EXPECT_EQ(swapped().CountsOf(domain()).swapped_in, 1u);
}

TEST_F(SwapTest, ManyBlocksGoInSeveralCopies) {
  AgentRig::Shape shape{.slots = 4 * kSwapPart * 3 * kSwapBlocksPerCopy,
                        .gpu_slots = 3 * kSwapBlocksPerCopy,
                        .disk = false};
  AgentRig large(shape);
  GpuTier& pool = large.agent->gpus().at(0);
  const uint32_t count = 2 * kSwapBlocksPerCopy + 1;
  std::vector<uint32_t> slots = *pool.grants().Take(large.session, count);
  std::byte* const memory = pool.pool().region()->address();
  for (uint32_t i = 0; i < count; ++i) {
    std::fill_n(memory + slots[i] * kRigBlockBytes, kRigBlockBytes, static_cast<std::byte>(i));
  }
  const Out id = large.Run(large.agent->flows().swapper.SwapOut(
      {.run = large.NameRun(large.session, 0, 0), .slots = slots}));
  ASSERT_EQ(id.status(), absl::OkStatus());
  std::fill_n(memory, 3 * kSwapBlocksPerCopy * kRigBlockBytes, std::byte{0xff});
  const In back = large.Run(large.agent->flows().swapper.SwapIn(
      {.session = large.session, .id = *id, .deadline = large.time.Now()}));
  ASSERT_EQ(back.status(), absl::OkStatus());
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(memory[(*back)[i] * kRigBlockBytes + 7], static_cast<std::byte>(i));
  }
}

TEST_F(SwapTest, KeptSlotsStayTheSessionsAndBlocksComeBackIntoThem) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 12);
  SwapOutRequest request = Leaving(rig_.session, {slots[0], slots[1], slots[2]});
  request.keep_slots = true;
  const SwapId id = *SwapOut(request);
  EXPECT_EQ(gpu().grants().size(), 12u);
  // The blocks come back into other slots of the session, though the pool has no free slot.
  const In back = SwapIn(rig_.session, id, absl::ZeroDuration(), {slots[9], slots[5], slots[7]});
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(*back, (std::vector<uint32_t>{slots[9], slots[5], slots[7]}));
  EXPECT_TRUE(Holds(*back, 100));
  EXPECT_EQ(gpu().grants().size(), 12u);
}

TEST_F(SwapTest, OnlyTheBlocksWithoutAnOwnSlotWait) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 4);
  const std::vector<uint32_t> all = Fill(rig_.session, 500, 10);
  const In back = SwapIn(rig_.session, id, absl::ZeroDuration(), {all[3], all[4]});
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_EQ(back->at(0), all[3]);
  EXPECT_EQ(back->at(1), all[4]);
  EXPECT_TRUE(Holds(*back, 100));
  EXPECT_EQ(gpu().grants().size(), 12u);
}

TEST_F(SwapTest, BeyondTheQuotaNothingGoesOut) {
  FillAndSwapOut(rig_.session, 100, 3);
  const std::vector<uint32_t> slots = Fill(rig_.session, 200, kSwapRigQuota - 2);
  const Out refused = SwapOut(Leaving(rig_.session, slots));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu().grants().size(), slots.size());
  EXPECT_EQ(used_host(), 3u);
  EXPECT_EQ(swapped().CountsOf(domain()).refused, 1u);
  EXPECT_EQ(SwapOut(Leaving(rig_.session, {slots.begin() + 1, slots.end()})).status(),
            absl::OkStatus());
}

TEST_F(SwapTest, WithoutRoomInHostMemoryNothingGoesOut) {
  const uint64_t all = kSwapRigQuota * kSwapPart;
  ASSERT_EQ(rig_.Put(rig_.session, 1, all), all);
  // All blocks but two are leased, so two may be evicted, and the swap needs three slots.
  ASSERT_EQ(rig_.Run(rig_.Onboard(rig_.session, 1, all - 2, absl::Seconds(1)))->blocks.size(),
            all - 2);
  const std::vector<uint32_t> slots = Fill(rig_.session, 200, 3);
  const Out refused = SwapOut(Leaving(rig_.session, slots));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Holds(slots, 200));
  EXPECT_EQ(gpu().grants().size(), 3u);
  EXPECT_EQ(swapped().size(), 0u);
  EXPECT_EQ(used_host(), all - 2) << "what was taken for it is given back";
  EXPECT_EQ(swapped().CountsOf(domain()).refused, 1u);
}

TEST_F(SwapTest, ColderBlocksOfTheTenantMakeRoomAndNoneOfAnothers) {
  const uint64_t all = kSwapRigQuota * kSwapPart;
  const SessionId other = rig_.Open(1);
  ASSERT_EQ(rig_.Put(other, 1, all), all);
  ASSERT_EQ(rig_.Put(rig_.session, 1, all), all);
  FillAndSwapOut(rig_.session, 200, kSwapRigQuota);
  EXPECT_EQ(rig_.Hits(other, 1, all), all);
  EXPECT_EQ(rig_.agent->index().blocks_in_host(domain()), all - kSwapRigQuota);
}

TEST_F(SwapTest, WhatIsOutIsNotFoundAndNotEvicted) {
  FillAndSwapOut(rig_.session, 100, 4);
  EXPECT_EQ(rig_.agent->index().copies(), 0u);
  EXPECT_EQ(rig_.EvictHost(), 0u);
  EXPECT_EQ(used_host(), 4u);
}

TEST_F(SwapTest, DamageInHostMemoryIsFoundAndNeverServed) {
  const uint64_t offset = 0;  // The first slot of the arena.
  const SwapId id = FillAndSwapOut(rig_.session, 100, 4);
  rig_.Host(rig_.session, offset)[17] ^= std::byte{1};
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(rig_.agent->stats().host.verify_failures, 1u);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(used_host(), 0u);
  EXPECT_EQ(used_slots(), 0u);
  EXPECT_EQ(swapped().CountsOf(domain()).dropped, 1u);
}

TEST_F(SwapTest, TheEndOfTheSessionDropsWhatIsOut) {
  const SessionId other = rig_.Open(0);
  const SwapId others = FillAndSwapOut(other, 300, 2);
  FillAndSwapOut(rig_.session, 100, 2);
  FillAndSwapOut(rig_.session, 200, 1);
  EXPECT_FALSE(rig_.agent->CloseSession(rig_.session)) << "it has no slot to write";
  EXPECT_EQ(used_host(), 2u);
  EXPECT_EQ(swapped().CountsOf(domain()).dropped, 2u);
  EXPECT_EQ(SwapIn(other, others)->size(), 2u);
}

TEST_F(SwapTest, TheEndOfTheSessionIsWaitedForByWhatIsOnItsWay) {
  const auto out = rig_.Spawn(
      rig_.agent->flows().swapper.SwapOut(Leaving(rig_.session, Fill(rig_.session, 100, 2))));
  ASSERT_FALSE(out->has_value());
  EXPECT_TRUE(rig_.agent->CloseSession(rig_.session));
  rig_.agent->sessions().ProcessGone(rig_.session);
  EXPECT_EQ(used_slots(), 2u) << "the copy still reads them";
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ((*out)->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(used_slots(), 0u);
  EXPECT_EQ(rig_.agent->host().used_bytes(), 0u);
  EXPECT_EQ(swapped().size(), 0u);
}

TEST_F(SwapTest, WhatASessionDropsIsGone) {
  const SwapId first = FillAndSwapOut(rig_.session, 100, 2);
  const SwapId second = FillAndSwapOut(rig_.session, 200, 2);
  swapped().Drop(rig_.Open(0), std::vector<SwapId>{first});  // The sequence is not that session's.
  swapped().Drop(rig_.session, std::vector<SwapId>{second, second, SwapId{77}});
  EXPECT_EQ(used_host(), 2u);
  EXPECT_EQ(SwapIn(rig_.session, second).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SwapIn(rig_.session, first).status(), absl::OkStatus());
}

TEST_F(SwapTest, AFailedCopyChangesNothing) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 3);
  rig_.device.FailCopy(kOut, 1);
  EXPECT_EQ(SwapOut(Leaving(rig_.session, slots)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(gpu().grants().size(), 3u);
  EXPECT_EQ(used_host(), 0u);
  const SwapId id = *SwapOut(Leaving(rig_.session, slots));
  rig_.device.FailCopy(kIn, 1);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(used_slots(), 0u);
  const In back = SwapIn(rig_.session, id);
  ASSERT_EQ(back.status(), absl::OkStatus());
  EXPECT_TRUE(Holds(*back, 100));
}

TEST_F(SwapTest, WhatALostDeviceMayStillCopyIsNobodyElses) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 3);
  rig_.device.LoseInCopy(kIn, 1);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(swapped().size(), 0u);
  EXPECT_EQ(used_host(), 3u);
  EXPECT_EQ(used_slots(), 3u);
}

TEST_F(SwapTest, OnlySlotsOfTheSessionGoOut) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 2);
  const SessionId other = rig_.Open(0);
  for (const auto& [session, wrong] : {std::pair(other, slots),
                                       {rig_.session, {slots[0], slots[0]}},
                                       {rig_.session, {slots[0], 12345}}}) {
    EXPECT_EQ(SwapOut(Leaving(session, wrong)).status().code(), absl::StatusCode::kInvalidArgument);
  }
  SwapOutRequest unfit = Leaving(rig_.session, slots);
  unfit.run.lengths.longest *= 2;
  EXPECT_EQ(SwapOut(unfit).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(swapped().size(), 0u);
}

TEST_F(SwapTest, WrongOwnSlotsLeaveItOut) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 2);
  const std::vector<uint32_t> slots = Fill(rig_.session, 200, 3);
  for (const std::vector<uint32_t>& wrong : {slots, {slots[0], slots[0]}, {12345}}) {
    EXPECT_EQ(SwapIn(rig_.session, id, absl::ZeroDuration(), wrong).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(SwapIn(rig_.Open(0), id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SwapIn(rig_.session, id).status(), absl::OkStatus());
}

// Two tenants with pools on one GPU.
class SwapOfTwoTenantsTest : public SwapRig {
 protected:
  SwapOfTwoTenantsTest()
      : SwapRig({.slots = kSwapRigQuota * kSwapPart,
                 .gpu_slots = 4 * kRegionGranularity / kRigBlockBytes,
                 .gpu_tenants = {"default", "acme"},
                 .disk = false}) {}
};

TEST_F(SwapOfTwoTenantsTest, AnothersSequenceIsUnknownLikeAnyOther) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 2);
  const SessionId stranger = rig_.Open(1);
  const absl::Status anothers = SwapIn(stranger, id).status();
  const SwapId nobodys{static_cast<uint64_t>(id) + 1'000'000};
  EXPECT_EQ(anothers.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(
      absl::StrReplaceAll(anothers.message(), {{absl::StrCat(static_cast<uint64_t>(id)), "N"}}),
      absl::StrReplaceAll(SwapIn(stranger, nobodys).status().message(),
                          {{absl::StrCat(static_cast<uint64_t>(nobodys)), "N"}}));
  swapped().Drop(stranger, std::vector<SwapId>{id});
  EXPECT_EQ(swapped().UseOf(DomainId{1}).sequences, 0u);
  EXPECT_EQ(swapped().CountsOf(DomainId{1}).dropped, 0u);
  const In back = SwapIn(rig_.session, id);
  ASSERT_EQ(back.status(), absl::OkStatus()) << "it is still its owner's";
  EXPECT_TRUE(Holds(*back, 100));
}

}  // namespace
}  // namespace kvtier::testing
