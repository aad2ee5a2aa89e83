// FaultyDevice is an emulated device with calls for tests and the simulator alone: they cause its
// faults, and launch the kernels that an engine would.
#ifndef KVTIER_TESTS_TESTING_FAULTY_DEVICE_H_
#define KVTIER_TESTS_TESTING_FAULTY_DEVICE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier::testing {

// A kernel of the emulated engine, for Lane::kCompute.
struct EmulatedKernel {
  absl::Duration run;
  std::vector<std::span<const std::byte>> reads;  // Ranges of mapped or pinned memory.
  std::vector<std::span<const std::byte>> writes;
  std::function<void()> body;  // Function that is called at some moment of its run; may be null.
};

class FaultyDevice final : public EmulatedDevice {
 public:
  // Makes a device. `clock` is not owned. `on_loss` is called when the device is lost; may be null.
  FaultyDevice(const Clock* clock, const Options& options, std::function<void()> on_loss = nullptr)
      : EmulatedDevice(clock, options), on_loss_(std::move(on_loss)) {}

  absl::Status state() const override;
  absl::Status Pin(std::span<std::byte> host) override;

  // Launches a kernel as the engine would. Errors: as Signal().
  absl::StatusOr<Ticket> Launch(EmulatedKernel kernel);
  // Notes an access of the process itself, from the host.
  void NoteHostAccess(AccessChecker::Access access, std::span<const std::byte> bytes);

  // Makes the `nth` batch of segments or blocks that is submitted in this direction from now on (1:
  // the next one) move half of them and fail. REQUIRES: nth > 0.
  void FailCopy(CopyDirection direction, uint64_t nth);
  // Loses the device in the middle of the `nth` batch, counted as in FailCopy(); 0: never.
  void LoseInCopy(CopyDirection direction, uint64_t nth);
  // Makes copies take time but move no bytes, for tests that check only times.
  void LeaveOutBytes() { leaves_out_bytes_ = true; }
  // Keeps the lane from beginning work until Resume(); work that runs ends.
  void Stall(Lane lane);
  void Resume(Lane lane);
  // Makes Pin() wait until this is called with false: a GPU's may take seconds. Any thread.
  void HoldPins(bool hold) ABSL_LOCKS_EXCLUDED(pins_mu_) {
    const absl::MutexLock lock(&pins_mu_);
    hold_pins_ = hold;
  }
  // Returns the number of calls of Pin() that wait because of HoldPins(). Any thread.
  size_t held_pins() const ABSL_LOCKS_EXCLUDED(pins_mu_) {
    const absl::MutexLock lock(&pins_mu_);
    return held_pins_;
  }
  // Loses the device for ever. Work that runs or waits fails now, half done, and is abandoned.
  void Lose();
  // Makes the rest of the copies that Lose() abandoned, as a GPU may at any time: they read their
  // sources and write their destinations. REQUIRES: their regions and host memory are still mapped.
  void RunAbandoned();
  // Kills the process that has the device: does the same as Lose(), and then raises `gone`, which
  // tells others of its end. A process that sees `gone` raised sees all that the device wrote.
  void Kill(SignalWord* gone);

 private:
  Ticket AddCopy(Lane lane, EmulatedOperation copy) override;
  // Loses the device, with the work done as far as the lanes have come.
  void GiveUp();

  const std::function<void()> on_loss_;
  mutable absl::Mutex pins_mu_;
  bool hold_pins_ ABSL_GUARDED_BY(pins_mu_) = false;
  size_t held_pins_ ABSL_GUARDED_BY(pins_mu_) = 0;
  bool leaves_out_bytes_ = false;
  std::array<uint64_t, kLanes> fail_in_{};  // Batches until one fails; 0: none will.
  std::array<uint64_t, kLanes> lose_in_{};  // Batches until one loses the device; 0: none will.
  std::atomic<bool> lost_ = false;
  std::vector<EmulatedOperation> abandoned_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAULTY_DEVICE_H_
