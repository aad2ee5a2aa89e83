// StepCompute is the engine's side of the race stress: steps of a computation that fill
// blocks of a region and look at others, in order on Lane::kCompute. On a GPU they are
// kernels; on an emulated device of its own they are that device's, in virtual time, and
// the access checker looks at all of it.
#ifndef KVTIER_BENCH_STEP_COMPUTE_H_
#define KVTIER_BENCH_STEP_COMPUTE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bench/gpu_rig.h"
#include "tier_gpu/device/device.h"

namespace kvtier::bench {

// What a block is to hold: word i of 8 bytes is `value` + i.
struct StepBlock {
  uint32_t slot = 0;
  uint64_t value = 0;
};

void FillWords(std::span<std::byte> block, uint64_t value);
uint64_t WrongWords(std::span<const std::byte> block, uint64_t value);

// One thread.
class StepCompute {
 public:
  virtual ~StepCompute() = default;
  virtual Device* device() = 0;
  virtual DeviceRegion* region() = 0;
  virtual uint64_t block_bytes() const = 0;
  // That the device can copy by.
  virtual std::span<const CopyPath> paths() const = 0;

  // The next parts of the step. REQUIRES: at most 16 blocks.
  virtual void Fill(std::span<const StepBlock> blocks) = 0;
  virtual void Check(std::span<const StepBlock> blocks) = 0;
  // What the host itself does, for who looks at the order.
  virtual void HostWrites(std::span<const std::byte> bytes) = 0;
  virtual void HostReads(std::span<const std::byte> bytes) = 0;
  // Nothing had ended when the device was polled last: lets time go by.
  virtual void Pass() = 0;

  // That Check() found, of all steps that have ended.
  virtual uint64_t wrong_words() = 0;
  // Accesses that nothing orders, as far as somebody looks.
  virtual uint64_t unordered() const = 0;
};

// On the rig's device, or on an emulated one of its own, whose times `seed` draws.
std::unique_ptr<StepCompute> StepComputeOf(GpuRig* rig, uint64_t seed);
std::unique_ptr<StepCompute> EmulatedStepCompute(uint64_t seed);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_STEP_COMPUTE_H_
