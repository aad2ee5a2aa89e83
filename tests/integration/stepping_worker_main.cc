// A worker of the GPU pool whose life is cut into stations, so that a test can kill it,
// or its agent, ahead of each:
//   kvtier-stepping-worker SOCKET_DIR STATION
// stops itself (SIGSTOP) ahead of that station, having said so, and goes on when it is
// continued. Ends with 0, or with 3 if bytes that were said to be valid were not.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/lanes/worker_lanes.h"
#include "client/lanes/worker_pool.h"
#include "client/paged_kv.h"
#include "core/clock.h"
#include "tests/integration/stepping_worker.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_worker.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier::testing {
namespace {

class Life {
 public:
  explicit Life(const std::string& socket_dir) : worker_({.socket_dir = socket_dir}) {}

  // False: bytes were wrong. Without an agent it does nothing.
  bool Pass(Station station) {
    switch (station) {
      case Station::kBeginStep:
        return step_ = worker_.client().BeginStep(), true;
      case Station::kReserve:
        return Reserve();
      case Station::kWriteFirst:
        return Write(0, 2);
      case Station::kWriteRest:
        return Write(2, 4);
      case Station::kEndStep:
        return worker_.client().EndStep(step_), true;
      case Station::kCommit:
        return reserved_->Commit({.step = step_}), true;
      case Station::kHold:
        return hit_ = worker_.Hold(kPrefix, {.target = OnboardTarget::kGpu}), true;
      case Station::kProve:
        return worker_.Proves(hit_, kPrefix.first) || !hit_.valid();
      case Station::kRelease:
        return hit_.Release(), true;
      case Station::kTakeMemory:
        return TakeMemory();
      case Station::kGrow:
        return Grow();
      case Station::kFork:
        return Fork();
      case Station::kSwapOut:
        return !kv_ || kv_->SwapOut({&first_, 1}).ok();
      case Station::kSwapIn:
        return !kv_ || kv_->SwapIn(first_).ok();
      case Station::kCheck:
        return Check();
      case Station::kGiveMemory:
        return kv_.reset(), true;
      case Station::kOpenLanes:
        return OpenLanes();
      case Station::kBeginOffload:
        return Begin(Lane::kOffload);
      case Station::kEndOffload:
        return End(Lane::kOffload), true;
      case Station::kBeginOnboard:
        return Begin(Lane::kOnboard);
      case Station::kEndOnboard:
        return !End(Lane::kOnboard) || HoldsLaned();
      case Station::kCloseLanes:
        return pool_.reset(), true;
    }
    std::abort();
  }

 private:
  bool Reserve() {
    reserved_ = *worker_.client().Reserve(worker_.space(), worker_.KeysOf(kPrefix),
                                          {.target = OnboardTarget::kGpu});
    return true;
  }
  bool Write(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!reserved_->slot(i).empty()) worker_.Fill(kPrefix.first + i, reserved_->slot(i));
    }
    return true;
  }
  bool TakeMemory() {
    auto kv = PagedKv::Create(*worker_.client().TakeSlots(worker_.space(), 6), {});
    if (kv.ok()) kv_ = *std::move(kv);
    return true;
  }
  std::span<std::byte> Block(SequenceId sequence, size_t block) {
    return kv_->memory().slot(kv_->slots(sequence)->at(block));
  }
  bool Grow() {
    if (!kv_) return true;
    first_ = kv_->Open(0);
    if (!kv_->Append(first_, 16 * 2 + 8).ok()) return false;
    for (size_t block = 0; block < 3; ++block) {
      std::ranges::fill(Block(first_, block), static_cast<std::byte>(block + 1));
    }
    return true;
  }
  bool Fork() {
    if (!kv_) return true;
    second_ = *kv_->Fork(first_);
    if (!kv_->Append(second_, 1).ok()) return false;
    std::ranges::fill(Block(second_, 2), std::byte{9});
    return true;
  }
  bool Check() {
    if (!kv_) return true;
    bool right = true;
    for (size_t block = 0; block < 3; ++block) {
      const auto of_first = static_cast<std::byte>(block + 1);
      const auto is = [](std::byte value) { return [value](std::byte b) { return b == value; }; };
      right &= std::ranges::all_of(Block(first_, block), is(of_first));
      right &= std::ranges::all_of(Block(second_, block), is(block == 2 ? std::byte{9} : of_first));
    }
    return right || !kv_->memory().valid();
  }

  // Half of the slots hold blocks that go out, the other half is where they come back.
  bool OpenLanes() {
    auto slots = worker_.client().TakeSlots(worker_.space(), 2 * kLaned.count);
    if (!slots.ok() || slots->size() < 2 * kLaned.count) return true;
    for (size_t i = 0; i < kLaned.count; ++i) {
      worker_.Fill(kLaned.first + i, slots->slot(slots->numbers()[i]));
    }
    lanes_ = *WorkerLanes::Open(&worker_.client(), &device_);
    auto pool = WorkerPool::OverGranted(lanes_.get(), *std::move(slots), {}, worker_.spec());
    if (pool.ok()) pool_ = *std::move(pool);
    return true;
  }
  // The job's copies are submitted and none begins.
  bool Begin(Lane lane) {
    if (!pool_) return true;
    lanes_->On([this, lane] { return device_.Stall(lane), true; });
    const std::vector<EngineKey> keys = worker_.KeysOf(kLaned);
    const std::span<const uint32_t> slots = pool_->granted()->numbers();
    auto job = lane == Lane::kOffload ? pool_->Offload({keys, slots.first(kLaned.count)})
                                      : pool_->Onboard({keys, slots.last(kLaned.count)});
    if (!job.ok()) return false;
    job_ = *std::move(job);
    return Await(absl::Seconds(10), [this] { return job_->coming() || job_->done(); });
  }
  // Whether all of it came through.
  bool End(Lane lane) {
    if (!pool_) return false;
    lanes_->On([this, lane] { return device_.Resume(lane), true; });
    if (!job_->Wait(Patience(absl::Seconds(20)))) std::abort();
    return job_->status().ok() && job_->blocks() == kLaned.count;
  }
  bool HoldsLaned() {
    const GrantedSlots& granted = *pool_->granted();
    bool right = true;
    for (size_t i = 0; i < kLaned.count; ++i) {
      std::vector<std::byte> expected(granted.block_bytes());
      worker_.Fill(kLaned.first + i, expected);
      right &= std::ranges::equal(granted.slot(granted.numbers()[kLaned.count + i]), expected);
    }
    return right || !granted.valid();
  }

  TestWorker worker_;
  MonotonicClock clock_;
  EmulatedDevice device_{&clock_, {}};
  std::unique_ptr<WorkerLanes> lanes_;
  std::unique_ptr<WorkerPool> pool_;  // Null: no slots were to be had.
  std::shared_ptr<LaneJob> job_;
  uint64_t step_ = 0;
  std::optional<ReservedBlocks> reserved_;
  OnboardedBlocks hit_;
  std::unique_ptr<PagedKv> kv_;  // Null: no slots were to be had.
  SequenceId first_{};
  SequenceId second_{};
};

int Live(const std::string& socket_dir, size_t stop) {
  Life life(socket_dir);
  for (size_t station = 0; station < kStations; ++station) {
    if (station == stop) {
      std::printf("ahead of station %zu of %zu\n", station, kStations);
      std::fflush(stdout);
      raise(SIGSTOP);
    }
    if (!life.Pass(static_cast<Station>(station))) {
      std::printf("wrong bytes at station %zu\n", station);
      return 3;
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvtier::testing

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return kvtier::testing::Live(argv[1], std::strtoull(argv[2], nullptr, 10));
}
