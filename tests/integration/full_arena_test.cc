// Tests readers on an arena that is always full: while a writer makes the agent evict and reuse
// slots, every block that is copied out is the one that was asked for. KVTIER_ONBOARDS: how many
// blocks are read (20,000).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/blocks.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kArenaBlocks = 1024;
constexpr size_t kPutAtOnce = 64;
constexpr size_t kReadAtOnce = 128;

uint64_t Onboards() { return FromEnvironment("KVTIER_ONBOARDS", 20'000); }

class FullArenaTest : public ::testing::Test {
 protected:
  // Puts new blocks until the readers are done, so that freed slots are used again at once.
  void Write() {
    while (read_ < Onboards() && !HasFailure()) {
      if (writer_.Put({.first = written_, .count = kPutAtOnce}) > 0) written_ += kPutAtOnce;
    }
  }
  // Reads sets of recent blocks, about half of which are already evicted.
  void Read(TestWorker* worker, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> copy(kBlockBytes);
    const Piece piece(copy);
    while (read_ < Onboards() && !HasFailure()) {
      const uint64_t end = written_;
      const uint64_t begin = end - std::min(end, 2 * kArenaBlocks);
      std::vector<uint64_t> numbers(kReadAtOnce);
      std::vector<EngineKey> keys;
      for (uint64_t& number : numbers) {
        number = begin + random() % (end - begin);
        keys.push_back(TestEngineKey(number));
      }
      const KeySequence set{.space = worker->space(), .keys = keys, .is_set = true};
      const auto hits = worker->client().Onboard(std::span(&set, 1));
      ASSERT_TRUE(hits.ok()) << hits.status();
      const OnboardedBlocks& hit = hits->front();
      for (size_t i = 0; i < hit.size(); ++i) {
        const uint64_t number = numbers[hit.key_index(i)];
        const absl::Status copied = hit.CopyOut(i, std::span(&piece, 1));
        // No slot is written while it is leased, so each block is whole and the one that was asked
        // for.
        ASSERT_EQ(copied, absl::OkStatus()) << number;
        ASSERT_TRUE(HoldsBlock(/*tenant_seed=*/1, TestEngineKey(number), copy)) << number;
      }
      read_ += hit.size();
      missed_ += keys.size() - hit.size();
    }
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node", {{"host_bytes", "4MiB"}, {"slab_bytes", "1MiB"}, {"disk_dir", ""}});
  TestWorker writer_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
  TestWorker first_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
  TestWorker second_{{.socket_dir = agent_.socket_dir(), .block_bytes = kBlockBytes}};
  std::atomic<uint64_t> written_ = 0;
  std::atomic<uint64_t> read_ = 0;
  std::atomic<uint64_t> missed_ = 0;
};

TEST_F(FullArenaTest, EveryBlockReadIsTheOneThatWasAskedFor) {
  while (written_ < 2 * kArenaBlocks) {
    writer_.Put({.first = written_, .count = kPutAtOnce});
    written_ += kPutAtOnce;
  }
  std::thread writing([this] { Write(); });
  std::thread reading([this] { Read(&first_, TestSeed()); });
  Read(&second_, TestSeed() + 1);
  reading.join();
  writing.join();
  EXPECT_GE(read_, Onboards());
  // The arena was full and slots were reused under the readers.
  EXPECT_GT(missed_, 0);
  EXPECT_GT(agent_.TierStatus(Tier::kHost).evictions(), kArenaBlocks);
  RecordProperty("blocks_read", std::to_string(read_));
  RecordProperty("blocks_written", std::to_string(written_));
}

}  // namespace
}  // namespace kvtier::testing
