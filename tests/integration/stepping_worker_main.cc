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

#include "absl/status/status.h"
#include "client/client.h"
#include "client/paged_kv.h"
#include "tests/integration/stepping_worker.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

class Life {
 public:
  explicit Life(const std::string& socket_dir) : worker_({.socket_dir = socket_dir}) {}

  // Does the station's work; returns false if bytes were wrong. Without an agent it does nothing.
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
        return !kv_ || IsDone(kv_->SwapOut({&first_, 1}));
      case Station::kSwapIn:
        return !kv_ || IsDone(kv_->SwapIn(first_));
      case Station::kCheck:
        return Check();
      case Station::kGiveMemory:
        return kv_.reset(), true;
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
  // Returns whether the swap was made, or the agent died before: then the memory is lost, and the
  // worker computes again.
  bool IsDone(const absl::Status& swapped) {
    if (swapped.ok()) return true;
    const bool is_over = !kv_->memory().valid();
    if (is_over) kv_.reset();
    return is_over;
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

  TestWorker worker_;
  uint64_t step_ = 0;
  std::optional<ReservedBlocks> reserved_;
  OnboardedBlocks hit_;
  std::unique_ptr<PagedKv> kv_;  // Sequences of the worker; null: it got no slots.
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
