// Tests KV memory in the GPU pool of a real agent: block tables over granted slots, and what
// becomes of them when either side dies.
#include "client/paged_kv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "tests/testing/blocks.h"
#include "tests/testing/child_process.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr uint32_t kSlots = 16;

class PagedKvTest : public ::testing::Test {
 protected:
  struct Worker {
    std::unique_ptr<Client> client;
    SpaceHandle space{};
  };
  Worker NewWorker() const {
    Worker worker{.client = *Client::Open({.socket_dir = agent_.socket_dir()})};
    worker.space = *worker.client->RegisterSpace(TestSpace(kBlockBytes));
    return worker;
  }
  static std::unique_ptr<PagedKv> Take(const Worker& worker, uint32_t slots) {
    return *PagedKv::Create(*worker.client->TakeSlots(worker.space, slots), {.block_tokens = 16});
  }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kBlockBytes; }
  // Returns the first byte of a block of the sequence.
  static std::byte& At(const PagedKv& kv, SequenceId sequence, size_t block) {
    return kv.memory().slot(kv.slots(sequence)->at(block)).front();
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
};

TEST_F(PagedKvTest, ForksShareBlocksUntilOneOfThemWrites) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId first = kv->Open(0);
  ASSERT_EQ(kv->Append(first, 24), absl::OkStatus());
  At(*kv, first, 0) = std::byte{1};
  At(*kv, first, 1) = std::byte{2};
  const SequenceId second = *kv->Fork(first);
  EXPECT_EQ(*kv->slots(second), *kv->slots(first));
  ASSERT_EQ(kv->Append(second, 1), absl::OkStatus());
  EXPECT_EQ(kv->copied_blocks(), 1u);
  EXPECT_EQ(kv->slots(second)->at(0), kv->slots(first)->at(0));
  EXPECT_NE(kv->slots(second)->at(1), kv->slots(first)->at(1));
  EXPECT_EQ(At(*kv, second, 1), std::byte{2}) << "the copy has what was there";
  At(*kv, second, 1) = std::byte{3};
  EXPECT_EQ(At(*kv, first, 1), std::byte{2});
  ASSERT_EQ(kv->Free(first), absl::OkStatus());
  ASSERT_EQ(kv->Free(second), absl::OkStatus());
  EXPECT_EQ(kv->free_slots(), kSlots);
}

TEST_F(PagedKvTest, TheAgentIsToldWhatOfTheSlotsHoldsNoToken) {
  const Worker worker = NewWorker();
  const auto unused = [&] { return agent_.Status().gpus(0).granted_unused_bytes(); };
  auto kv = Take(worker, 4);
  auto other = Take(worker, 2);
  EXPECT_EQ(agent_.Status().gpus(0).granted_slots(), 6u);
  EXPECT_EQ(unused(), 6 * kBlockBytes);
  const SequenceId sequence = kv->Open(0);
  ASSERT_EQ(kv->Append(sequence, 24), absl::OkStatus());
  EXPECT_EQ(unused(), 6 * kBlockBytes - kBlockBytes * 3 / 2);
  const SequenceId fork = *kv->Fork(sequence);
  EXPECT_EQ(unused(), 6 * kBlockBytes - kBlockBytes * 3 / 2) << "shared tokens count once";
  ASSERT_EQ(kv->Free(fork), absl::OkStatus());
  ASSERT_EQ(kv->Truncate(sequence, 16), absl::OkStatus());
  EXPECT_EQ(unused(), 5 * kBlockBytes);
  ASSERT_EQ(kv->SwapOut({&sequence, 1}), absl::OkStatus());
  EXPECT_EQ(unused(), 6 * kBlockBytes);
  ASSERT_EQ(kv->SwapIn(sequence), absl::OkStatus());
  EXPECT_EQ(unused(), 5 * kBlockBytes);
  other.reset();
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return agent_.Status().gpus(0).granted_slots() == 4; }));
  EXPECT_EQ(unused(), 3 * kBlockBytes);
}

TEST_F(PagedKvTest, AWholeSequenceGoesOutAndComesBackWithItsBytes) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId first = kv->Open(0);
  const SequenceId second = kv->Open(0);
  ASSERT_EQ(kv->Append(first, 16 * 10), absl::OkStatus());
  for (size_t block = 0; block < 10; ++block) At(*kv, first, block) = static_cast<std::byte>(block);
  EXPECT_EQ(kv->Append(second, 16 * 10).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(kv->SwapOut({&first, 1}), absl::OkStatus());
  EXPECT_EQ(kv->swapped_bytes(), 10 * kBlockBytes);
  EXPECT_EQ(kv->slots(first).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(kv->Append(second, 16 * 10), absl::OkStatus());
  std::ranges::fill(kv->memory().slot(kv->slots(second)->at(0)), std::byte{0xff});
  EXPECT_EQ(kv->SwapIn(first).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(kv->Free(second), absl::OkStatus());
  ASSERT_EQ(kv->SwapIn(first), absl::OkStatus());
  for (size_t block = 0; block < 10; ++block) {
    EXPECT_EQ(At(*kv, first, block), static_cast<std::byte>(block));
  }
  EXPECT_EQ(kv->swapped_bytes(), 0u);
}

TEST_F(PagedKvTest, TheFirstInLineComesBackBeforeTheOthers) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  EXPECT_EQ(kv->NextReturn(), std::nullopt);
  const SequenceId low = kv->Open(0);
  const SequenceId older = kv->Open(1);
  const SequenceId younger = kv->Open(1);
  const std::vector<SequenceId> all = {low, older, younger};
  for (const SequenceId sequence : all) ASSERT_EQ(kv->Append(sequence, 16), absl::OkStatus());
  ASSERT_EQ(kv->SwapOut(all), absl::OkStatus());

  const absl::Status refused = kv->SwapIn(younger);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(refused.message()),
      ::testing::HasSubstr("sequence 3 of priority 1 cannot be swapped in yet; swap in first "
                           "sequence 2 of priority 1, which is first in line"));
  EXPECT_EQ(kv->swapped_bytes(), 3 * kBlockBytes) << "an error changes nothing";
  for (const SequenceId next : {older, younger}) {
    EXPECT_EQ(kv->SwapIn(low).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(kv->NextReturn(), next);
    EXPECT_EQ(kv->SwapIn(next), absl::OkStatus());
  }
  EXPECT_EQ(kv->SwapIn(low), absl::OkStatus());
  EXPECT_EQ(kv->NextReturn(), std::nullopt);
  EXPECT_EQ(kv->SwapIn(low).code(), absl::StatusCode::kFailedPrecondition) << "it is not out";
  EXPECT_EQ(kv->SwapIn(SequenceId{77}).code(), absl::StatusCode::kNotFound);
}

TEST_F(PagedKvTest, AHigherPriorityGoesAheadOfWhoWasPreempted) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId first = kv->Open(0);
  const SequenceId second = kv->Open(0);
  ASSERT_EQ(kv->Append(first, 16 * 10), absl::OkStatus());
  EXPECT_EQ(kv->Victims(second, 1).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(kv->SetPriority(second, 1), absl::OkStatus());
  const std::vector<SequenceId> victims = *kv->Victims(second, 1);
  EXPECT_EQ(victims, std::vector<SequenceId>{first});
  ASSERT_EQ(kv->SwapOut(victims), absl::OkStatus());
  ASSERT_EQ(kv->Append(second, 16 * 10), absl::OkStatus());
  ASSERT_EQ(kv->SwapOut({&second, 1}), absl::OkStatus());
  EXPECT_EQ(kv->SwapIn(first).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(kv->SetPriority(first, 2), absl::OkStatus());
  EXPECT_EQ(kv->SwapIn(first), absl::OkStatus());
  EXPECT_EQ(kv->SetPriority(SequenceId{77}, 1).code(), absl::StatusCode::kNotFound);
}

TEST_F(PagedKvTest, NewSlotsAreZerosWhoeverHadThemBefore) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId dirty = kv->Open(0);
  ASSERT_EQ(kv->Append(dirty, 16 * kSlots), absl::OkStatus());
  for (size_t block = 0; block < kSlots; ++block) At(*kv, dirty, block) = std::byte{0xff};
  ASSERT_EQ(kv->Free(dirty), absl::OkStatus());
  const SequenceId clean = kv->Open(0);
  ASSERT_EQ(kv->Append(clean, 16 * kSlots), absl::OkStatus());
  for (size_t block = 0; block < kSlots; ++block) EXPECT_EQ(At(*kv, clean, block), std::byte{0});
}

TEST_F(PagedKvTest, WhatIsOutLiesInTheAgentsHostMemory) {
  const Worker worker = NewWorker();
  auto kv = Take(worker, kSlots);
  const auto host_blocks = [&] {
    return agent_.TierStatus(Tier::kHost).used_bytes() / kBlockBytes;
  };
  const SequenceId first = kv->Open(0);
  const SequenceId second = kv->Open(0);
  for (const SequenceId sequence : {first, second}) {
    ASSERT_EQ(kv->Append(sequence, 16 * 3), absl::OkStatus());
  }
  ASSERT_EQ(kv->SwapOut({{first, second}}), absl::OkStatus());
  EXPECT_EQ(host_blocks(), 6u);
  EXPECT_EQ(UsedSlots(), kSlots) << "the slots stay granted";
  ASSERT_EQ(kv->SwapIn(first), absl::OkStatus());
  EXPECT_EQ(host_blocks(), 3u);
  ASSERT_EQ(kv->Free(second), absl::OkStatus());
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return host_blocks() == 0; }));
  ASSERT_EQ(kv->SwapOut({&first, 1}), absl::OkStatus());
  kv.reset();
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return host_blocks() == 0; }));
}

TEST_F(PagedKvTest, ForksThatGoOutTogetherComeBackEachWithItsOwn) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId first = kv->Open(1);
  ASSERT_EQ(kv->Append(first, 16 * 2), absl::OkStatus());
  At(*kv, first, 0) = std::byte{1};
  At(*kv, first, 1) = std::byte{2};
  const SequenceId second = *kv->Fork(first);
  const SequenceId third = *kv->Fork(first);
  ASSERT_EQ(kv->Append(second, 16), absl::OkStatus());
  At(*kv, second, 2) = std::byte{3};
  // The third sequence keeps the shared blocks in the pool; only the second's own block leaves.
  ASSERT_EQ(kv->SwapOut({{first, second}}), absl::OkStatus());
  EXPECT_EQ(kv->swapped_bytes(), kBlockBytes);
  // Now all that share the blocks leave, so each sequence takes a copy of all its blocks along.
  ASSERT_EQ(kv->SwapOut({{third, first, second}}), absl::OkStatus());
  EXPECT_EQ(kv->swapped_bytes(), 7 * kBlockBytes);
  EXPECT_EQ(kv->free_slots(), kSlots);
  const SequenceId noise = kv->Open(5);
  ASSERT_EQ(kv->Append(noise, 16 * kSlots), absl::OkStatus());
  for (size_t block = 0; block < kSlots; ++block) At(*kv, noise, block) = std::byte{0xff};
  ASSERT_EQ(kv->Free(noise), absl::OkStatus());
  for (const SequenceId sequence : {first, second, third}) {
    ASSERT_EQ(kv->SwapIn(sequence), absl::OkStatus());
    EXPECT_EQ(At(*kv, sequence, 0), std::byte{1});
    EXPECT_EQ(At(*kv, sequence, 1), std::byte{2});
  }
  EXPECT_EQ(At(*kv, second, 2), std::byte{3});
}

TEST_F(PagedKvTest, SwappedBlocksHaveAQuota) {
  AgentProcess& small = cluster_.StartAgent("node-b", {{"host_bytes", "1MiB"},
                                                       {"slab_bytes", "256KiB"},
                                                       {"gpu_bytes", "1MiB"},
                                                       {"gpu_block_bytes", "64KiB"},
                                                       {"device", "emulated"}});
  const auto client = *Client::Open({.socket_dir = small.socket_dir()});
  const SpaceHandle space = *client->RegisterSpace(TestSpace(kBlockBytes));
  const auto kv = *PagedKv::Create(*client->TakeSlots(space, kSlots), {.block_tokens = 16});
  const SequenceId fitting = kv->Open(1);
  const SequenceId sequence = kv->Open(0);
  ASSERT_EQ(kv->Append(fitting, 16), absl::OkStatus());
  ASSERT_EQ(kv->Append(sequence, 16 * 4), absl::OkStatus());
  At(*kv, sequence, 3) = std::byte{9};
  EXPECT_EQ(kv->SwapOut({{fitting, sequence}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(kv->slots(fitting)->size(), 1u) << "an error changes nothing";
  EXPECT_EQ(kv->slots(sequence)->size(), 4u);
  EXPECT_EQ(kv->swapped_bytes(), 0u);
  // The agent drops the blocks of the two that it had already copied.
  EXPECT_TRUE(
      Await(absl::Seconds(2), [&] { return small.TierStatus(Tier::kHost).used_bytes() == 0; }));
  ASSERT_EQ(kv->SwapOut({&sequence, 1}), absl::OkStatus());
  ASSERT_EQ(kv->SwapIn(sequence), absl::OkStatus());
  EXPECT_EQ(At(*kv, sequence, 3), std::byte{9});
}

TEST_F(PagedKvTest, SwappedSequencesOfTwoWorkersComeBackByPriority) {
  const Worker one = NewWorker();
  const Worker two = NewWorker();
  GrantedSlots low = *one.client->TakeSlots(one.space, 4);
  GrantedSlots high = *two.client->TakeSlots(two.space, 4);
  std::ranges::fill(low.slot(low.numbers()[0]), std::byte{1});
  std::ranges::fill(high.slot(high.numbers()[2]), std::byte{2});
  const uint64_t step = two.client->BeginStep();
  two.client->EndStep(step);
  const std::vector<uint32_t> low_numbers = low.numbers();
  SwappedSequence low_out = *low.SwapOut(low_numbers, {.priority = 1});
  SwappedSequence high_out = *high.SwapOut(
      std::vector<uint32_t>{high.numbers()[2], high.numbers()[3]}, {.priority = 2, .step = step});
  EXPECT_EQ(low.size(), 0u);
  EXPECT_EQ(high.size(), 2u) << "two of them are given back";
  EXPECT_EQ(UsedSlots(), 2u);
  GrantedSlots all = *one.client->TakeSlots(one.space, kSlots);
  ASSERT_EQ(all.size(), kSlots - 2);
  EXPECT_EQ(low_out.SwapIn(absl::ZeroDuration()).status().code(),
            absl::StatusCode::kResourceExhausted);
  // The one that asks first has the lower priority.
  std::optional<absl::StatusOr<GrantedSlots>> low_back;
  std::thread waiting([&] { low_back = low_out.SwapIn(absl::Seconds(20)); });
  std::optional<absl::StatusOr<GrantedSlots>> high_back;
  std::thread ahead([&] { high_back = high_out.SwapIn(absl::Seconds(20)); });
  absl::SleepFor(absl::Milliseconds(200));
  all.Release();
  ahead.join();
  waiting.join();
  ASSERT_EQ(high_back->status(), absl::OkStatus());
  ASSERT_EQ(low_back->status(), absl::OkStatus());
  const GrantedSlots& low_slots = **low_back;
  EXPECT_EQ(low_slots.slot(low_slots.numbers()[0]).front(), std::byte{1});
  const GrantedSlots& high_slots = **high_back;
  EXPECT_EQ(high_slots.slot(high_slots.numbers()[0]).back(), std::byte{2});
  EXPECT_FALSE(low_out);
  EXPECT_EQ(low.SwapOut(low_numbers).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PagedKvTest, OperatorsSeeWhatIsOut) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, kSlots);
  const SequenceId sequence = kv->Open(0);
  ASSERT_EQ(kv->Append(sequence, 16 * 3), absl::OkStatus());
  ASSERT_EQ(kv->SwapOut({&sequence, 1}), absl::OkStatus());
  const std::string told = absl::StrCat(cluster_.run_dir(), "/told");
  const auto program = *ChildProcess::Start(
      {ProgramPath("kvtier"), "tenants", "describe", "default", "--agent", agent_.admin_address()},
      told);
  EXPECT_EQ(program->Wait(Patience(absl::Seconds(10))), 0);
  EXPECT_THAT(FileTail(told, 1000),
              ::testing::HasSubstr("swapped out: 1 sequences, 3 blocks, 192 KiB of 4.00 MiB; since "
                                   "the start 1 out, 0 in"));
}

TEST_F(PagedKvTest, SlotsComeBackWhenTheMemoryIsGivenUp) {
  const Worker worker = NewWorker();
  {
    const auto kv = Take(worker, kSlots);
    EXPECT_EQ(UsedSlots(), kSlots);
    EXPECT_TRUE(kv->memory().valid());
  }
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return UsedSlots() == 0; }));
}

TEST_F(PagedKvTest, AKilledWorkersSlotsServeOthers) {
  // The worker is a program of its own, because gRPC does not survive fork().
  const auto doomed =
      *ChildProcess::Start({ProgramPath("kvtier-holding-worker"), agent_.socket_dir(), "0", "0",
                            "0", absl::StrCat(kSlots), "gpu-memory"},
                           absl::StrCat(cluster_.run_dir(), "/worker.log"));
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return UsedSlots() == kSlots; }));
  doomed->Kill();
  EXPECT_TRUE(Await(absl::Seconds(1), [&] { return UsedSlots() == 0; }));
  const Worker worker = NewWorker();
  EXPECT_EQ(Take(worker, kSlots)->memory().size(), kSlots);
}

TEST_F(PagedKvTest, ADeadAgentTakesTheGrantAndNotTheMemory) {
  const Worker worker = NewWorker();
  const auto kv = Take(worker, 4);
  const SequenceId sequence = kv->Open(0);
  ASSERT_EQ(kv->Append(sequence, 16), absl::OkStatus());
  agent_.Kill();
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return !kv->memory().valid(); }));
  At(*kv, sequence, 0) = std::byte{1};  // The memory is still mapped.
}

TEST_F(PagedKvTest, ACProgramKeepsItsSequencesThere) {
  const auto program = *ChildProcess::Start({ProgramPath("c_paged_kv"), agent_.socket_dir()},
                                            absl::StrCat(cluster_.run_dir(), "/c.log"));
  EXPECT_EQ(program->Wait(Patience(absl::Seconds(30))), 0)
      << FileTail(absl::StrCat(cluster_.run_dir(), "/c.log"), 400);
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return UsedSlots() == 0; }));
}

TEST_F(PagedKvTest, WithoutSlotsThereIsNoMemory) {
  const Worker worker = NewWorker();
  EXPECT_EQ(worker.client->TakeSlots(worker.space, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const SpaceSpec& unfit : {TestSpace(2 * kBlockBytes), AnyLengthSpace(kBlockBytes)}) {
    const SpaceHandle space = *worker.client->RegisterSpace(unfit);
    EXPECT_EQ(PagedKv::Create(*worker.client->TakeSlots(space, 1), {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(PagedKv::Create(*worker.client->TakeSlots(worker.space, 1), {.block_tokens = 0})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvtier::testing
