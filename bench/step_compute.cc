#include "bench/step_compute.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/check.h"
#include "core/clock.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/emulated_device.h"
#ifdef KVTIER_HAVE_CUDA
#include "bench/gpu_kernels.h"
#include "bench/gpu_stream.h"
#endif

namespace kvtier::bench {
namespace {

class VirtualClock final : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  void AdvanceTo(absl::Time now) { now_ = std::max(now_, now); }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

class EmulatedCompute final : public StepCompute {
 public:
  explicit EmulatedCompute(uint64_t seed)
      : random_(seed),
        device_(&clock_, {.seed = seed, .checker = &checker_, .process = "the engine"}),
        region_(*device_.CreateRegion({.handle_bytes = kRegionGranularity}, 1)) {}

  Device* device() override { return &device_; }
  DeviceRegion* region() override { return region_.get(); }
  uint64_t block_bytes() const override { return kBlockBytes; }
  std::span<const CopyPath> paths() const override { return kPaths; }

  void Fill(std::span<const StepBlock> blocks) override {
    EmulatedKernel kernel{.run = RunTime()};
    for (const StepBlock& block : blocks) kernel.writes.emplace_back(BytesOf(block));
    kernel.body = [this, blocks = std::vector(blocks.begin(), blocks.end())] {
      for (const StepBlock& block : blocks) FillWords(BytesOf(block), block.value);
    };
    KVT_CHECK(device_.Launch(std::move(kernel)).ok());
  }
  void Check(std::span<const StepBlock> blocks) override {
    EmulatedKernel kernel{.run = RunTime()};
    for (const StepBlock& block : blocks) kernel.reads.emplace_back(BytesOf(block));
    kernel.body = [this, blocks = std::vector(blocks.begin(), blocks.end())] {
      for (const StepBlock& block : blocks) wrong_words_ += WrongWords(BytesOf(block), block.value);
    };
    KVT_CHECK(device_.Launch(std::move(kernel)).ok());
  }
  void HostWrites(std::span<const std::byte> bytes) override {
    device_.NoteHostAccess(AccessChecker::Access::kWrite, bytes);
  }
  void HostReads(std::span<const std::byte> bytes) override {
    device_.NoteHostAccess(AccessChecker::Access::kRead, bytes);
  }
  void Pass() override {
    KVT_CHECK(device_.next_poll() < absl::InfiniteFuture());
    clock_.AdvanceTo(device_.next_poll());
  }
  uint64_t wrong_words() override { return wrong_words_; }
  uint64_t unordered() const override { return checker_.races().size(); }

 private:
  static constexpr uint64_t kBlockBytes = 16 << 10;
  static constexpr std::array<CopyPath, 1> kPaths = {CopyPath::kBatch};
  // A copy of a round's blocks takes about 10 us in the link's model: now the copies wait
  // for compute, now compute for them.
  static constexpr uint64_t kMostRunUs = 40;
  absl::Duration RunTime() {
    return absl::Microseconds(static_cast<int64_t>(1 + random_() % kMostRunUs));
  }

  std::span<std::byte> BytesOf(const StepBlock& block) {
    return {region_->address() + block.slot * kBlockBytes, kBlockBytes};
  }

  std::mt19937_64 random_;
  VirtualClock clock_;
  AccessChecker checker_{kBlockBytes};
  uint64_t wrong_words_ = 0;
  EmulatedDevice device_;
  std::unique_ptr<DeviceRegion> region_;
};

#ifdef KVTIER_HAVE_CUDA

class GpuCompute final : public StepCompute {
 public:
  explicit GpuCompute(GpuRig* rig) : rig_(rig), wrong_words_(sizeof(uint64_t)) {
    const uint64_t none = 0;
    WriteToGpu(wrong_words_.data(), std::as_bytes(std::span(&none, 1)));
  }

  Device* device() override { return &rig_->device(); }
  DeviceRegion* region() override { return rig_->region(); }
  uint64_t block_bytes() const override { return kBlockBytes; }
  std::span<const CopyPath> paths() const override { return kPaths; }
  void Fill(std::span<const StepBlock> blocks) override {
    CheckCuda("a step's fill", FillBlocksOnDevice(LaunchOf(blocks), rig_->stream().handle()));
  }
  void Check(std::span<const StepBlock> blocks) override {
    CheckCuda("a step's check", CheckBlocksOnDevice(LaunchOf(blocks), rig_->stream().handle()));
  }
  void HostWrites(std::span<const std::byte> /*bytes*/) override {}
  void HostReads(std::span<const std::byte> /*bytes*/) override {}
  void Pass() override {}
  uint64_t wrong_words() override {
    uint64_t wrong = 0;
    ReadFromGpu(wrong_words_.data(), std::as_writable_bytes(std::span(&wrong, 1)));
    return wrong;
  }
  uint64_t unordered() const override { return 0; }

 private:
  static constexpr uint64_t kBlockBytes = 256 << 10;
  static constexpr std::array<CopyPath, 3> kPaths = {CopyPath::kBatch, CopyPath::kStaged,
                                                     CopyPath::kDirect};
  // Behind each of 64 pieces: a part of a step takes longer than the copy of its blocks.
  static constexpr uint32_t kPauseNs = 500;

  BlockStepLaunch LaunchOf(std::span<const StepBlock> blocks) {
    KVT_CHECK(blocks.size() <= kMostStepBlocks);
    BlockStepLaunch launch = {
        .pool = rig_->region()->address(),
        .block_bytes = kBlockBytes,
        .count = static_cast<uint32_t>(blocks.size()),
        .pause_ns = kPauseNs,
        .wrong_words = reinterpret_cast<unsigned long long*>(wrong_words_.data())};
    for (size_t i = 0; i < blocks.size(); ++i) {
      launch.slots[i] = blocks[i].slot;
      launch.values[i] = blocks[i].value;
    }
    return launch;
  }

  GpuRig* const rig_;
  GpuMemory wrong_words_;
};

#endif

}  // namespace

void FillWords(std::span<std::byte> block, uint64_t value) {
  for (uint64_t i = 0; i < block.size() / sizeof(uint64_t); ++i) {
    const uint64_t word = value + i;
    std::memcpy(block.data() + i * sizeof(word), &word, sizeof(word));
  }
}

uint64_t WrongWords(std::span<const std::byte> block, uint64_t value) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < block.size() / sizeof(uint64_t); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, block.data() + i * sizeof(word), sizeof(word));
    wrong += word != value + i ? 1 : 0;
  }
  return wrong;
}

std::unique_ptr<StepCompute> EmulatedStepCompute(uint64_t seed) {
  return std::make_unique<EmulatedCompute>(seed);
}

std::unique_ptr<StepCompute> StepComputeOf(GpuRig* rig, uint64_t seed) {
#ifdef KVTIER_HAVE_CUDA
  if (!rig->emulated()) return std::make_unique<GpuCompute>(rig);
#endif
  KVT_CHECK(rig->emulated());
  return EmulatedStepCompute(seed);
}

}  // namespace kvtier::bench
