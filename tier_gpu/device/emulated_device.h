// EmulatedDevice is a Device without a GPU. Its memory is real and shared for real
// (memfds); its lanes run in virtual time, by a clock and a model of the link: what is
// due is done when the device is polled. Batches of one lane overlap as the model has it
// (LinkModel::Advance); a batch moves its bytes in its own turn, when all that is ahead of
// it has ended. Everything that the API leaves open is used against the caller: a copy
// reads its source somewhere in its turn, a seed shuffles the segments of a batch, and a
// checker finds accesses that nothing orders.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/clock.h"
#include "tier_gpu/device/access_checker.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/emulated_blocks.h"
#include "tier_gpu/device/emulated_lane.h"
#include "tier_gpu/device/emulated_region.h"
#include "tier_gpu/device/link_model.h"
#include "tier_gpu/device/pinned_memory.h"

namespace kvtier {

// A kernel of the emulated engine, for Lane::kCompute.
struct EmulatedKernel {
  absl::Duration run;
  std::vector<std::span<const std::byte>> reads;  // Of mapped or pinned memory.
  std::vector<std::span<const std::byte>> writes;
  std::function<void()> body;  // Somewhere in its run; may be null.
};

class EmulatedDevice final : public Device {
 public:
  struct Options {
    LinkModel link = LinkModel::Pcie5();
    // nullopt: a batch moves in its order, half-way through its run. Otherwise each
    // segment, and each kernel's body, at a random moment of the run.
    std::optional<uint64_t> seed;
    uint64_t pin_chunk_bytes = kPinChunkBytes;
    bool kernels = true;  // As CudaOptions has them.
    // Not owned. Several devices may share one: then they are the lanes of several
    // processes on one GPU.
    AccessChecker* checker = nullptr;
    std::string process = "agent";  // In the checker's words.
    // Tells emulated devices apart, by their UUIDs: the same in every process.
    uint8_t ordinal = 0;
    std::optional<int> numa_node{};  // Answer of Device::numa_node().
    // Called when the device is lost; may be null.
    std::function<void()> on_loss;
    // How Drain() waits. The default sleeps.
    std::function<void(absl::Time until)> wait;
    // Off: Submit()'s batches take their time and touch no memory, for tests of time alone.
    bool moves_bytes = true;
  };

  // `clock` is not owned.
  EmulatedDevice(const Clock* clock, const Options& options);
  // REQUIRES: its regions are gone. What has not ended does not happen any more.
  ~EmulatedDevice() override;

  const std::string& name() const override { return name_; }
  DeviceUuid uuid() const override;
  std::optional<int> numa_node() const override { return options_.numa_node; }
  bool has_kernels() const override { return options_.kernels; }
  absl::Status state() const override;
  absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(const RegionShape& shape,
                                                             size_t handles) override;
  absl::StatusOr<std::unique_ptr<DeviceRegion>> ImportRegion(const RegionShape& shape,
                                                             std::span<const int> descriptors,
                                                             const DeviceUuid& of) override;
  absl::StatusOr<std::unique_ptr<DeviceRegion>> AdoptRegion(
      std::span<const std::span<std::byte>> ranges) override;
  absl::Status Pin(std::span<std::byte> host) override;
  absl::Status Unpin(std::span<std::byte> host) override;
  absl::StatusOr<Ticket> Submit(const CopyBatch& batch) override;
  absl::StatusOr<Ticket> SubmitBlocks(const BlockBatch& batch) override;
  absl::StatusOr<Ticket> Signal(Lane lane, SignalWord* word, uint64_t value) override;
  absl::StatusOr<Ticket> Await(Lane lane, SignalWord* word, uint64_t value) override;
  bool HandedOver(const Ticket&) const override { return true; }
  void Raise(SignalWord* word, uint64_t value) override;
  bool Reached(const SignalWord& word, uint64_t value) override;
  size_t Poll(std::span<Completion> ended) override;
  absl::Time next_poll() const override;
  absl::Status Drain(absl::Duration timeout) override;

  // What the engine would do itself. Errors: as Signal().
  absl::StatusOr<Ticket> Launch(EmulatedKernel kernel);
  // An access of the process itself, from the host.
  void NoteHostAccess(AccessChecker::Access access, std::span<const std::byte> bytes);
  // The process itself before the checker, for what orders it with others. REQUIRES: there
  // is a checker.
  AccessChecker::Timeline host_timeline() const { return host_; }

  // Faults, for tests and the simulator. The `nth` batch, of either kind, from now that is
  // submitted in the direction (1: the next one) will move half of its segments or blocks
  // and fail. REQUIRES: nth > 0.
  void FailCopy(CopyDirection direction, uint64_t nth);
  // The device is lost somewhere in the run of the `nth` batch, counted in the same way; 0:
  // in none.
  void LoseInCopy(CopyDirection direction, uint64_t nth);
  // The lane begins nothing until Resume(); what runs ends.
  void Stall(Lane lane);
  void Resume(Lane lane);
  // Pin() takes until this is called with false, as a GPU's does for seconds. Any thread.
  void HoldPins(bool hold) ABSL_LOCKS_EXCLUDED(pins_mu_) {
    const absl::MutexLock lock(&pins_mu_);
    hold_pins_ = hold;
  }
  // Calls of Pin() that are held. Any thread.
  size_t held_pins() const ABSL_LOCKS_EXCLUDED(pins_mu_) {
    const absl::MutexLock lock(&pins_mu_);
    return held_pins_;
  }
  // For good. What runs or waits fails now, half done, and is abandoned.
  void Lose();
  // The copies that Lose() abandoned do the rest of their work now, as they may on a GPU at
  // any time: they read their sources and write their destinations. REQUIRES: their regions
  // and host memory are still mapped.
  void RunAbandoned();
  // As when the process is killed: the same, and whoever then sees that `gone` is raised,
  // which stands for the news of its end, is after all that did happen.
  void Kill(SignalWord* gone);

 private:
  struct Track {
    explicit Track(Lane lane) : lane(lane) {}
    EmulatedLane lane;
    AccessChecker::Timeline timeline{};
    LanePipeline pipeline;
    uint64_t fail_in = 0;  // Batches until one fails; 0: none will.
    uint64_t lose_in = 0;  // Batches until the device is lost in one; 0: in none.
  };
  Track& track(Lane lane) { return tracks_[static_cast<size_t>(lane)]; }
  absl::Status CheckOpen(Lane lane);
  absl::Status CheckBatch(const CopyBatch& batch) const;
  EmulatedOperation NewOperation(Lane lane);
  // Without its steps: of this shape, in its lane.
  EmulatedOperation NewCopy(const CopyShape& shape);
  void AddMoves(const CopyBatch& batch, EmulatedOperation* operation);
  void AddBlocks(CopyDirection direction, const std::shared_ptr<const EmulatedBlocks>& blocks,
                 EmulatedOperation* operation);
  Ticket AddCopy(Lane lane, EmulatedOperation operation);
  double MomentOfRun();
  // Runs all events up to `now`, in the order of their times.
  void Advance(absl::Time now);
  // Lose(), as far as the lanes have come.
  void GiveUp();
  absl::Time NextEvent() const;
  bool idle() const;

  const Clock* const clock_;
  const Options options_;
  const std::string name_ = "emulated";
  AccessChecker* const checker_;
  AccessChecker::Timeline host_{};
  PinnedMemory pinned_;
  mutable absl::Mutex pins_mu_;
  bool hold_pins_ ABSL_GUARDED_BY(pins_mu_) = false;
  size_t held_pins_ ABSL_GUARDED_BY(pins_mu_) = 0;
  std::array<Track, kLanes> tracks_{Track(Lane::kOnboard), Track(Lane::kOffload),
                                    Track(Lane::kCompute)};
  std::mt19937_64 random_;
  std::atomic<bool> lost_ = false;
  bool loss_due_ = false;  // A batch of LoseInCopy() has come to its moment.
  std::vector<EmulatedOperation> abandoned_;
  absl::Time now_;  // How far the lanes have come.
  std::array<std::deque<AccessChecker::VectorClock>, kLanes> end_clocks_;  // Not polled yet.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_
