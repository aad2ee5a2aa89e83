#include "tests/testing/faulty_device.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier::testing {
namespace {

using Access = AccessChecker::Access;

size_t IndexOf(CopyDirection direction) { return static_cast<size_t>(LaneOf(direction)); }

// Counts down to the batch that a fault is to hit; returns whether it is this one.
bool IsNext(uint64_t* left) {
  if (*left == 0) return false;
  --*left;
  return *left == 0;
}

}  // namespace

absl::Status FaultyDevice::state() const {
  return lost_ ? absl::UnavailableError("emulated device: lost") : absl::OkStatus();
}

absl::Status FaultyDevice::Pin(std::span<std::byte> host) {
  {
    const absl::MutexLock lock(&pins_mu_);
    ++held_pins_;
    const auto go_on = [this]() ABSL_SHARED_LOCKS_REQUIRED(pins_mu_) { return !hold_pins_; };
    pins_mu_.Await(absl::Condition(&go_on));
    --held_pins_;
  }
  return EmulatedDevice::Pin(host);
}

absl::StatusOr<Ticket> FaultyDevice::Launch(EmulatedKernel kernel) {
  KVT_RETURN_IF_ERROR(CheckOpen(Lane::kCompute));
  EmulatedOperation operation = NewOperation(Lane::kCompute);
  operation.run = kernel.run;
  auto act = [this, kernel = std::move(kernel)] {
    const AccessChecker::Timeline timeline = track(Lane::kCompute).timeline;
    for (const auto bytes : kernel.reads) {
      if (checker() != nullptr) checker()->Note(timeline, Access::kRead, bytes);
    }
    for (const auto bytes : kernel.writes) {
      if (checker() != nullptr) checker()->Note(timeline, Access::kWrite, bytes);
    }
    if (kernel.body) kernel.body();
  };
  operation.steps.push_back({.at = MomentOfRun(), .act = std::move(act)});
  return track(Lane::kCompute).lane.Add(std::move(operation));
}

void FaultyDevice::NoteHostAccess(Access access, std::span<const std::byte> bytes) {
  if (checker() != nullptr) checker()->Note(host_timeline(), access, bytes);
}

void FaultyDevice::FailCopy(CopyDirection direction, uint64_t nth) {
  KVT_CHECK(nth > 0);
  fail_in_[IndexOf(direction)] = nth;
}

void FaultyDevice::LoseInCopy(CopyDirection direction, uint64_t nth) {
  lose_in_[IndexOf(direction)] = nth;
}

Ticket FaultyDevice::AddCopy(Lane lane, EmulatedOperation copy) {
  if (leaves_out_bytes_) copy.steps.clear();
  if (IsNext(&lose_in_[static_cast<size_t>(lane)])) {
    const double at = MomentOfRun();
    const auto place = std::ranges::upper_bound(copy.steps, at, {}, &EmulatedStep::at);
    copy.steps.insert(place, {.at = at, .act = [this] { GiveUp(); }});
  }
  if (IsNext(&fail_in_[static_cast<size_t>(lane)])) {
    copy.steps.resize(copy.steps.size() / 2);
    copy.status = absl::UnavailableError("emulated device: a copy failed, as was asked");
  }
  return EmulatedDevice::AddCopy(lane, std::move(copy));
}

void FaultyDevice::Stall(Lane lane) {
  Advance();
  track(lane).lane.Stall();
}

void FaultyDevice::Resume(Lane lane) {
  Advance();
  Track& resumed = track(lane);
  if (resumed.lane.Resume(now())) resumed.pipeline.Fence(now());
}

void FaultyDevice::Lose() {
  Advance();
  GiveUp();
}

void FaultyDevice::GiveUp() {
  if (lost_.exchange(true)) return;
  for (Track& track : tracks()) {
    std::vector<EmulatedOperation> left = track.lane.Abandon(now(), Abandoned(state()));
    // Kernels are the engine's own, and signal words say nothing after a loss.
    if (track.lane.lane() == Lane::kCompute) continue;
    std::erase_if(left, [](const auto& operation) { return operation.steps.empty(); });
    std::ranges::move(left, std::back_inserter(abandoned_));
  }
  if (on_loss_) on_loss_();
}

void FaultyDevice::RunAbandoned() {
  for (EmulatedOperation& operation : std::exchange(abandoned_, {})) {
    if (operation.begin) operation.begin(&operation);
    for (const EmulatedStep& step : operation.steps) step.act();
  }
}

void FaultyDevice::Kill(SignalWord* gone) {
  Lose();
  abandoned_.clear();
  if (checker() != nullptr) {
    for (const Track& track : tracks()) checker()->Release(track.timeline, gone);
  }
  Raise(gone, 1);
}

}  // namespace kvtier::testing
