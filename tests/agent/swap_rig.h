// SwapRig is an agent with one GPU pool, whose workers swap sequences out and in.
#ifndef KVTIER_TESTS_AGENT_SWAP_RIG_H_
#define KVTIER_TESTS_AGENT_SWAP_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {

// Maximum number of blocks that may be swapped out: 1 / kSwapPart of the tenant's guaranteed ones.
inline constexpr uint64_t kSwapRigQuota = 8;

class SwapRig : public ::testing::Test {
 protected:
  using Out = absl::StatusOr<SwapId>;
  using In = absl::StatusOr<std::vector<uint32_t>>;

  explicit SwapRig(const AgentRig::Shape& shape = {.slots = kSwapRigQuota * kSwapPart,
                                                   .gpu_slots = 12,
                                                   .disk = false})
      : rig_(shape) {}
  ~SwapRig() override { rig_.agent->Audit(); }

  GpuTier& gpu() { return rig_.agent->gpus().at(0); }
  SwappedSequences& swapped() { return rig_.agent->sessions().swapped(); }
  DomainId domain() const { return gpu_domain_; }
  uint64_t used_slots() { return gpu().pool().used_bytes() / kRigBlockBytes; }
  uint64_t used_host() { return rig_.agent->host().slots(domain()).used_bytes() / kRigBlockBytes; }
  std::span<std::byte> Slot(uint32_t number) {
    return {gpu().pool().region()->address() + number * kRigBlockBytes, kRigBlockBytes};
  }
  // Takes slots and writes to them the bytes of block `first` and the next ones.
  std::vector<uint32_t> Fill(SessionId session, uint64_t first, uint32_t count) {
    std::vector<uint32_t> slots = *gpu().grants().Take(session, count);
    EXPECT_EQ(slots.size(), count);
    for (size_t i = 0; i < slots.size(); ++i) {
      FillBlock(1, TestEngineKey(first + i), Slot(slots[i]));
    }
    return slots;
  }
  bool Holds(const std::vector<uint32_t>& slots, uint64_t first) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!HoldsBlock(1, TestEngineKey(first + i), Slot(slots[i]))) return false;
    }
    return true;
  }
  SwapOutRequest Leaving(SessionId session, std::vector<uint32_t> slots, int32_t priority = 0) {
    return {.run = rig_.NameRun(session, 0, 0), .slots = std::move(slots), .priority = priority};
  }
  Out SwapOut(SwapOutRequest request) {
    return rig_.Run(rig_.agent->flows().swapper.SwapOut(std::move(request)));
  }
  // Fills slots and swaps them out.
  SwapId FillAndSwapOut(SessionId session, uint64_t first, uint32_t count, int32_t priority = 0) {
    return *SwapOut(Leaving(session, Fill(session, first, count), priority));
  }
  Task<In> Return(SessionId session, SwapId id, absl::Duration timeout,
                  std::vector<uint32_t> own = {}) {
    return rig_.agent->flows().swapper.SwapIn({.session = session,
                                               .id = id,
                                               .slots = std::move(own),
                                               .deadline = rig_.time.Now() + timeout});
  }
  In SwapIn(SessionId session, SwapId id, absl::Duration timeout = absl::ZeroDuration(),
            std::vector<uint32_t> own = {}) {
    return rig_.Run(Return(session, id, timeout, std::move(own)));
  }

  AgentRig rig_;
  const DomainId gpu_domain_ = rig_.agent->gpus().at(0).domain();
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_AGENT_SWAP_RIG_H_
