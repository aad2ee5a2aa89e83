// Runs the worker's lanes beside its compute, under the access checker: whole, layer by layer and
// encoded, each world with a seed. Threads and the agent's answers take varying times, so a seed
// gives the same jobs again but not the same interleaving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "tests/client/codec_tensors.h"
#include "tests/client/lanes_rig.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::CodecTensors;
using testing::EmulatedKernel;
using testing::FaultyDevice;
using testing::GaussianValues;
using ::testing::IsEmpty;
using testing::kCodecShape;
using testing::LanesRig;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;
using testing::ThereAndBack;

constexpr uint64_t kGranule = 512;  // No two runs share a granule.
constexpr testing::LayoutSize kSize = {.layers = 4, .slots = 8, .run_bytes = 8 << 10, .start = 0};
constexpr int kRounds = 4;
// Maximum number of blocks in a job. Offloads use the first slots, onboards the others.
constexpr uint32_t kMaxBlocks = 4;

// Wait that a world leaves out, of those that order jobs and compute.
enum class LeftOut {
  kNothing,
  kComputeMark,  // An offload begins before the compute that writes its blocks has ended.
  kLayerMark,    // Attention does not wait for the layer that it reads.
  kReaders,      // An onboard begins while attention still reads the old blocks.
};

struct Counts {
  uint64_t whole = 0, layer_wise = 0, encoded = 0, offloads = 0;
};

// Engine is an engine's memory, its lanes and its compute.
class Engine {
 public:
  struct Content {
    std::function<void(uint32_t slot, uint64_t content)> compute;
    // Returns whether the slot's layer is that of the content.
    std::function<bool(uint32_t slot, uint64_t content, uint32_t layer)> holds;
    bool encoded = false;
  };
  Engine(TensorMemory* memory, std::unique_ptr<WorkerPool> pool, Content content)
      : memory_(memory), pool_(std::move(pool)), content_(std::move(content)) {}

  WorkerPool& pool() { return *pool_; }
  const Content& content() const { return content_; }
  uint32_t layers() const { return memory_->layout().geometry.layers; }

  EmulatedKernel Computing(uint64_t first, uint32_t blocks) {
    EmulatedKernel kernel;
    for (uint32_t layer = 0; layer < layers(); ++layer) {
      for (uint32_t slot = 0; slot < blocks; ++slot) VisitRuns(layer, slot, &kernel.writes);
    }
    kernel.body = [this, first, blocks] {
      for (uint32_t slot = 0; slot < blocks; ++slot) content_.compute(slot, first + slot);
    };
    return kernel;
  }
  EmulatedKernel Attending(uint32_t layer, uint64_t first, uint32_t blocks, uint64_t* wrong) {
    EmulatedKernel kernel;
    for (uint32_t i = 0; i < blocks; ++i) VisitRuns(layer, kMaxBlocks + i, &kernel.reads);
    kernel.body = [this, layer, first, blocks, wrong] {
      for (uint32_t i = 0; i < blocks; ++i) {
        if (!content_.holds(kMaxBlocks + i, first + i, layer)) ++*wrong;
      }
    };
    return kernel;
  }

  // Blocks that were offloaded last, and come back in the next round.
  uint64_t first = 0;
  uint32_t blocks = 0;

 private:
  void VisitRuns(uint32_t layer, uint32_t slot, std::vector<std::span<const std::byte>>* runs) {
    const uint32_t axes = memory_->layout().geometry.axes == KvAxes::kApart ? 2 : 1;
    for (uint32_t axis = 0; axis < axes; ++axis) runs->push_back(memory_->run(layer, axis, slot));
  }

  TensorMemory* const memory_;
  const std::unique_ptr<WorkerPool> pool_;
  const Content content_;
};

class LanesWorld {
 public:
  LanesWorld(uint64_t seed, LeftOut left_out)
      : left_out_(left_out),
        random_(seed),
        rig_(EmulatedDevice::Options{
            .seed = random_(), .checker = &checker_, .process = "the worker"}),
        raw_(testing::kLayouts.at(Below(testing::kLayouts.size())), kSize),
        encoded_(Below(2) == 0 ? KvOrder::kTokenHead : KvOrder::kHeadToken) {
    rig_.OnDevice(
        [this](FaultyDevice& device) { EXPECT_EQ(device.Pin(page_->bytes()), absl::OkStatus()); });
  }

  void Run() {
    // On a busy machine the first try may fail.
    ASSERT_TRUE(testing::Await(absl::Seconds(10), [this] {
      return rig_.client().connected() && rig_.client().Stats().breaker == "closed";
    }));
    constexpr std::array<const char*, 3> kCodecs = {"fp8_e4m3", "int8", "packed_exponents"};
    const SpaceSpec spec = encoded_.Space(kCodecs.at(Below(kCodecs.size())), Below(2) == 0);
    Engine raw(&raw_, rig_.Register(&raw_),
               {.compute = [this](uint32_t slot, uint64_t content) { raw_.Compute(slot, content); },
                .holds = [this](uint32_t slot, uint64_t content,
                                uint32_t layer) { return raw_.Holds(slot, content, layer, 1); }});
    const auto values = [](uint64_t content) { return GaussianValues(kCodecShape, content, 30); };
    Engine encoded(
        &encoded_.memory(), rig_.Register(encoded_.tensors(), spec),
        {.compute = [this, values](uint32_t slot,
                                   uint64_t content) { encoded_.Compute(slot, values(content)); },
         .holds =
             [this, values, spec](uint32_t slot, uint64_t content, uint32_t layer) {
               return layer + 1 < kCodecShape.layers ||
                      encoded_.Read(slot) == ThereAndBack(spec, values(content));
             },
         .encoded = true});
    for (int round = 0; round < kRounds; ++round) {
      Round(&raw);
      Round(&encoded);
    }
    EXPECT_TRUE(Reached(kAttended, attended_));
    rig_.OnDevice([this](FaultyDevice& device) {
      EXPECT_EQ(device.Unpin(page_->bytes()), absl::OkStatus());
    });
  }

  const std::vector<std::string>& races() const { return checker_.races(); }
  uint64_t wrong() const { return wrong_; }
  const Counts& counts() const { return counts_; }

 private:
  enum Word : size_t { kComputed, kAttended };
  uint32_t Below(size_t bound) { return static_cast<uint32_t>(random_() % bound); }
  // Waits like a worker that goes on only after its compute.
  bool Reached(Word word, uint64_t value) {
    return testing::Eventually([&] {
      rig_.lanes().Poll();
      bool reached = false;
      rig_.OnDevice(
          [&](FaultyDevice& device) { reached = device.Reached(*page_->word(word), value); });
      return reached;
    });
  }
  void Launch(FaultyDevice& device, EmulatedKernel kernel, absl::Duration longest) {
    kernel.run = longest * (1 + Below(8)) / 8;
    EXPECT_TRUE(device.Launch(std::move(kernel)).ok());
  }

  // Computes new blocks and offloads them. Meanwhile the last round's blocks come back and are
  // read.
  void Round(Engine* engine) {
    const uint32_t blocks = 1 + Below(kMaxBlocks);
    const uint64_t first = next_content_ += 100;
    rig_.OnDevice([&](FaultyDevice& device) {
      Launch(device, engine->Computing(first, blocks), absl::Milliseconds(1));
      EXPECT_TRUE(device.Signal(Lane::kCompute, page_->word(kComputed), ++computed_).ok());
    });
    OffloadOptions behind;
    if (left_out_ != LeftOut::kComputeMark) {
      behind.after = {.word = page_->word(kComputed), .value = computed_, .keep = page_};
    }
    const auto out = engine->pool().Offload({TestKeys(first, blocks), Slots(0, blocks)}, behind);
    // A second ComeBack() overwrites blocks that attention may still read.
    for (uint32_t left = 1 + Below(2); left > 0 && engine->blocks > 0; --left) ComeBack(engine);
    EXPECT_EQ(BlocksOf(out), blocks);
    ++counts_.offloads;
    counts_.encoded += engine->content().encoded ? 1 : 0;
    engine->first = first;
    engine->blocks = blocks;
  }

  void ComeBack(Engine* engine) {
    if (left_out_ != LeftOut::kReaders) {
      EXPECT_TRUE(Reached(kAttended, attended_));
    }
    const bool layer_wise = Below(2) == 0;
    const auto in = engine->pool().Onboard(
        {TestKeys(engine->first, engine->blocks), Slots(kMaxBlocks, engine->blocks)},
        {.order = layer_wise ? PlanOrder::kLayerWise : PlanOrder::kWhole});
    ASSERT_EQ(in.status(), absl::OkStatus());
    if (!layer_wise) {
      EXPECT_EQ(BlocksOf(in), engine->blocks);
    }
    ++(layer_wise ? counts_.layer_wise : counts_.whole);
    rig_.OnDevice([&](FaultyDevice& device) {
      for (uint32_t layer = 0; layer < engine->layers(); ++layer) {
        if (layer_wise && left_out_ != LeftOut::kLayerMark) {
          const LayerMark mark = (*in)->mark(layer + 1);
          EXPECT_TRUE(device.Await(Lane::kCompute, mark.word, mark.value).ok());
        }
        Launch(device, engine->Attending(layer, engine->first, engine->blocks, &wrong_),
               absl::Milliseconds(1));
      }
      EXPECT_TRUE(device.Signal(Lane::kCompute, page_->word(kAttended), ++attended_).ok());
    });
    EXPECT_EQ(BlocksOf(in), engine->blocks);
    jobs_.push_back(*in);
  }

  const LeftOut left_out_;
  std::mt19937_64 random_;
  AccessChecker checker_{kGranule};
  const std::shared_ptr<const SignalPage> page_ = *SignalPage::Create();
  std::vector<std::shared_ptr<LaneJob>> jobs_;  // Their marks are awaited until the end.
  LanesRig rig_;
  TensorMemory raw_;
  CodecTensors encoded_;
  uint64_t next_content_ = 0;
  uint64_t computed_ = 0;
  uint64_t attended_ = 0;
  uint64_t wrong_ = 0;  // Lanes' thread only.
  Counts counts_;
};

// Real time passes in these worlds, about 45 ms in each.
uint64_t SeedCount() {
  return testing::FromEnvironment("KVTIER_ORDER_SEEDS", testing::kSanitized ? 10 : 300);
}

TEST(WorkerPoolOrderTest, NoAccessIsUnorderedAndNoBlockIsWrongOnAnySeed) {
  const uint64_t first = testing::TestSeed();
  Counts sum;
  for (uint64_t seed = first; seed < first + SeedCount(); ++seed) {
    LanesWorld world(seed, LeftOut::kNothing);
    world.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    ASSERT_THAT(world.races(), IsEmpty()) << "seed " << seed;
    ASSERT_EQ(world.wrong(), 0U) << "seed " << seed;
    sum.whole += world.counts().whole;
    sum.layer_wise += world.counts().layer_wise;
    sum.encoded += world.counts().encoded;
    sum.offloads += world.counts().offloads;
  }
  std::printf("%lu worlds: %lu offloads, %lu of them encoded, %lu onboards whole, %lu by layers\n",
              SeedCount(), sum.offloads, sum.encoded, sum.whole, sum.layer_wise);
  EXPECT_GE(sum.whole + sum.layer_wise, SeedCount());
}

constexpr char kSlowHost[] = "under a sanitizer the host is too slow to race with its compute";

// Returns whether one of 100 worlds finds the race. A wait that is left out does not cause a race
// in each world, because time passes anyway.
bool Caught(LeftOut left_out, const std::string& race, const std::string& against) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    LanesWorld world(seed, left_out);
    world.Run();
    for (const std::string& found : world.races()) {
      if (found.find(race) != std::string::npos && found.find(against) != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

TEST(WorkerPoolOrderTest, AnOffloadThatDoesNotWaitForItsComputeIsCaught) {
  if (testing::kSanitized) GTEST_SKIP() << kSlowHost;
  EXPECT_TRUE(Caught(LeftOut::kComputeMark, "worker's offload", "worker's compute"));
}

TEST(WorkerPoolOrderTest, AttentionThatDoesNotWaitForItsLayerIsCaught) {
  if (testing::kSanitized) GTEST_SKIP() << kSlowHost;
  EXPECT_TRUE(Caught(LeftOut::kLayerMark, "worker's onboard", "worker's compute"));
}

TEST(WorkerPoolOrderTest, AnOnboardThatDoesNotWaitForAttentionIsCaught) {
  if (testing::kSanitized) GTEST_SKIP() << kSlowHost;
  EXPECT_TRUE(Caught(LeftOut::kReaders, "the write by the worker's onboard",
                     "read by the worker's compute"));
}

}  // namespace
}  // namespace kvtier
