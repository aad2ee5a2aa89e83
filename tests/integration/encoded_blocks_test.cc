// Tests a real agent whose spaces have codecs: what a client encoded comes back from host memory
// and from disk, and the blocks of two codecs never meet.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/block_codec.h"
#include "tests/testing/blocks.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr Blocks kPrefix = {.first = 100, .count = 8};

// Blocks of 4 layers, K and V, 16 tokens and 2 heads of 64: 32 KiB raw. Compact slots have the
// codec's size; roomy ones have one size for all codecs.
enum class Slots { kCompact, kRoomy };
SpaceSpec SpaceOf(const std::string& codec, Slots slots) {
  SpaceSpec spec = TestSpace(0);
  spec.layers = 4;
  spec.codec = codec;
  const SpaceCodec sizes = *SpaceCodec::Of(spec);
  spec.block_bytes = slots == Slots::kRoomy ? sizes.max_encoded_bytes() : sizes.encoded_bytes();
  return spec;
}

// Returns ones with signs in a pattern that depends on the block: no codec loses a sign.
std::vector<uint16_t> RawBlock(uint64_t number) {
  std::vector<uint16_t> values(16384);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (i * (2 * number + 1) >> 7 & 1) != 0 ? 0xbf80 : 0x3f80;
  }
  return values;
}

class EncodedBlocksTest : public ::testing::Test {
 protected:
  size_t Put(SpaceHandle space, const BlockCodec& codec) {
    ReservedBlocks put = *worker_.client().Reserve(space, worker_.KeysOf(kPrefix));
    for (size_t i = 0; i < put.size(); ++i) {
      if (put.slot(i).empty()) continue;
      const std::vector<uint16_t> raw = RawBlock(i);
      EXPECT_TRUE(codec.Encode(std::as_bytes(std::span(raw)), put.slot(i)).ok());
    }
    return put.Commit();
  }

  static bool SameSigns(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    return std::ranges::equal(
        a, b, {}, [](uint16_t x) { return x >> 15; }, [](uint16_t x) { return x >> 15; });
  }

  // Returns how many blocks came back as they were put.
  size_t Get(SpaceHandle space, const BlockCodec& codec) {
    const OnboardedBlocks hit = *worker_.client().Onboard(space, worker_.KeysOf(kPrefix));
    std::vector<uint16_t> raw(16384);
    for (size_t i = 0; i < hit.size(); ++i) {
      const absl::Status status =
          codec.Decode(hit.bytes(i), std::as_writable_bytes(std::span(raw)));
      if (!status.ok() || !SameSigns(raw, RawBlock(i))) return i;
    }
    return hit.valid() ? hit.size() : 0;
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(EncodedBlocksTest, ComeBackFromHostAndFromDisk) {
  const SpaceSpec spec = SpaceOf("int8", Slots::kCompact);
  const BlockCodec codec = *BlockCodec::For(spec);
  const SpaceHandle space = *worker_.client().RegisterSpace(spec);
  ASSERT_EQ(Put(space, codec), kPrefix.count);
  EXPECT_EQ(Get(space, codec), kPrefix.count);
  EXPECT_EQ(agent_.TierStatus(Tier::kHost).bytes_in(), kPrefix.count * spec.block_bytes);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Evict(Tier::kHost);
  EXPECT_EQ(Get(space, codec), kPrefix.count);
}

TEST_F(EncodedBlocksTest, BlocksOfTwoCodecsNeverMeet) {
  size_t committed = 0;
  for (const char* const name : {"fp8_e4m3", "int8", "packed_exponents"}) {
    const SpaceSpec spec = SpaceOf(name, Slots::kRoomy);
    const SpaceHandle space = *worker_.client().RegisterSpace(spec);
    EXPECT_EQ(worker_.client().Match(space, worker_.KeysOf(kPrefix))->blocks, 0) << name;
    committed += Put(space, *BlockCodec::For(spec));
    EXPECT_EQ(Get(space, *BlockCodec::For(spec)), kPrefix.count) << name;
  }
  EXPECT_EQ(committed, 3 * kPrefix.count);
}

}  // namespace
}  // namespace kvtier::testing
