// Tests that a worker that writes into committed slots, from one byte to a whole block, hurts
// nobody: what was changed is never copied out as right, and the scrub finds what nobody reads.
// KVTIER_STRAY_WRITES: how many writes (300).
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/testing/blocks.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 10;
constexpr uint64_t kBlocks = 32;

size_t Writes() { return FromEnvironment("KVTIER_STRAY_WRITES", 300); }

class StrayWritesTest : public ::testing::Test {
 protected:
  explicit StrayWritesTest(const std::string& scrub = "0")
      : agent_(cluster_.StartAgent("node", {{"host_bytes", "16MiB"},
                                            {"slab_bytes", "1MiB"},
                                            {"host_scrub_bytes_per_second", scrub}})) {}

  // Puts block `number`, in place or in one pass that takes its sum.
  void Put(uint64_t number, bool in_one_pass) {
    const std::vector<EngineKey> keys = writer_.KeysOf({number, 1});
    absl::StatusOr<ReservedBlocks> reserved = writer_.client().Reserve(writer_.space(), keys);
    ASSERT_TRUE(reserved.ok());
    if (reserved->state(0) != ReservedBlocks::State::kReserved) return;
    std::vector<std::byte> bytes(kBlockBytes);
    writer_.Fill(number, bytes);
    if (in_one_pass) {
      const ConstPiece piece(bytes);
      ASSERT_EQ(reserved->CopyIn(0, {&piece, 1}), absl::OkStatus());
    } else {
      writer_.Fill(number, reserved->slot(0));
    }
    reserved->Commit();
  }
  // Returns the block's bytes in host memory, through the mapping that can be written; empty: the
  // block is not there.
  std::span<std::byte> SlotOf(uint64_t number) {
    // The lease's bytes are not compared: an earlier stray write may have changed them.
    const auto hit = writer_.client().Onboard(writer_.space(), writer_.KeysOf({number, 1}));
    if (!hit.ok() || hit->empty()) return {};
    return *writer_.client().host_memory().write->Write(hit->offset(0), kBlockBytes);
  }
  // Changes a random part of the block; all magnitudes of length are equally likely.
  void Scribble(std::span<std::byte> block) {
    const auto limit = static_cast<uint64_t>(std::bit_width(kBlockBytes) - 1);
    const uint64_t size =
        std::min(kBlockBytes, (uint64_t{1} << (random_() % (limit + 1))) + random_() % 3);
    const uint64_t at = random_() % (kBlockBytes - size + 1);
    const auto change = static_cast<std::byte>(1 + random_() % 255);
    for (std::byte& byte : block.subspan(at, size)) byte ^= change;
  }
  // Copies the block out by another worker; returns the copy's code. A copy that succeeds must have
  // the block's own bytes.
  absl::StatusCode Read(uint64_t number) {
    const auto hit = reader_.client().Onboard(reader_.space(), reader_.KeysOf({number, 1}));
    if (!hit.ok() || hit->empty()) return absl::StatusCode::kNotFound;
    std::vector<std::byte> copy(kBlockBytes);
    const Piece piece(copy);
    const absl::Status copied = hit->CopyOut(0, {&piece, 1});
    if (copied.ok()) {
      EXPECT_TRUE(HoldsBlock(/*tenant_seed=*/1, TestEngineKey(number), copy))
          << "WRONG BYTES of " << number;
    }
    return copied.code();
  }

  ProcessCluster cluster_;
  AgentProcess& agent_;
  TestWorker writer_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
  TestWorker reader_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
  std::mt19937_64 random_{TestSeed()};
};

TEST_F(StrayWritesTest, NoneIsEverCopiedOut) {
  std::map<absl::StatusCode, size_t> said;
  for (size_t i = 0; i < Writes() && !HasFailure(); ++i) {
    const uint64_t number = 1 + random_() % kBlocks;
    Put(number, random_() % 2 == 0);
    const std::span<std::byte> slot = SlotOf(number);
    if (!slot.empty()) Scribble(slot);
    ++said[Read(number)];
  }
  // Most blocks were in host memory alone, or were read before the disk had them.
  EXPECT_GT(said[absl::StatusCode::kDataLoss], Writes() / 4);
  EXPECT_EQ(said[absl::StatusCode::kOk] + said[absl::StatusCode::kDataLoss] +
                said[absl::StatusCode::kNotFound],
            Writes());
  // Each block can in the end be read right: from memory, from the disk, or put again.
  for (uint64_t number = 1; number <= kBlocks; ++number) {
    EXPECT_TRUE(Await(absl::Seconds(10), [&] {
      Put(number, true);
      return Read(number) == absl::StatusCode::kOk;
    })) << number;
  }
  EXPECT_GT(agent_.Status().altered_blocks(), 0);
}

class ScrubbedWritesTest : public StrayWritesTest {
 protected:
  ScrubbedWritesTest() : StrayWritesTest("64MiB") {}
};

TEST_F(ScrubbedWritesTest, WhatNobodyReadsIsFoundWithinTwoPasses) {
  for (uint64_t number = 1; number <= kBlocks; ++number) Put(number, number % 2 == 0);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  std::vector<std::span<std::byte>> slots;
  for (uint64_t number = 1; number <= kBlocks; ++number) slots.push_back(SlotOf(number));
  // Flips one bit in each of some blocks, as faulty memory does.
  constexpr uint64_t kChanged = 10;
  for (uint64_t i = 0; i < kChanged; ++i) {
    ASSERT_FALSE(slots[i].empty());
    slots[i][random_() % kBlockBytes] ^= static_cast<std::byte>(1 << (random_() % 8));
  }
  // Two passes of 2 MiB at 64 MiB/s take about 2 s with the pause of a second after each; this is
  // ten times that.
  EXPECT_TRUE(Await(absl::Seconds(21), [&] {
    return agent_.Status().host_scrub().altered() == kChanged;
  })) << agent_.Status().host_scrub().altered();
  EXPECT_EQ(agent_.Status().altered_blocks(), kChanged);
  EXPECT_EQ(reader_.Get({1, kBlocks}).size(), kBlocks) << "the disk has what was dropped";
}

}  // namespace
}  // namespace kvtier::testing
