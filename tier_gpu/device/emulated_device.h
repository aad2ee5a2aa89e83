// EmulatedDevice is a Device without a GPU. Its memory is real and really shared (memfds). Its
// lanes run in virtual time, by a clock and a model of the link: events that are due happen when
// the device is polled. Batches of one lane overlap as the model says (LinkModel::Advance); a batch
// moves its bytes in its own turn, when everything before it has ended. Behaviour that the API
// leaves open is chosen against the caller: a copy reads its source somewhere in its turn, a seed
// shuffles the segments of a batch, and a checker finds accesses that nothing orders. It has no
// faults; a derived class may add them.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>

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

class EmulatedDevice : public Device {
 public:
  struct Options {
    LinkModel link = LinkModel::Pcie5();
    // Seed of the order of moves. nullopt: a batch moves in its order, half-way through its run.
    // Otherwise each segment or block moves at a random moment of the run.
    std::optional<uint64_t> seed;
    uint64_t pin_chunk_bytes = kPinChunkBytes;
    bool kernels = true;  // Same meaning as in CudaOptions.
    // Borrowed. Several devices may share one checker; they are then the lanes of several processes
    // on one GPU.
    AccessChecker* checker = nullptr;
    std::string process = "agent";  // Name of the process in the checker's reports.
    // Number that tells emulated devices apart, by their UUIDs; the same in every process.
    uint8_t ordinal = 0;
    std::optional<int> numa_node{};  // Result of Device::numa_node().
    // Function with which Drain() waits. The default sleeps.
    std::function<void(absl::Time until)> wait;
  };

  // Does not own `clock`.
  EmulatedDevice(const Clock* clock, const Options& options);
  // Drops operations that have not ended: they never happen. REQUIRES: its regions are destroyed.
  ~EmulatedDevice() override;

  const std::string& name() const override { return name_; }
  DeviceUuid uuid() const override;
  std::optional<int> numa_node() const override { return options_.numa_node; }
  bool has_kernels() const override { return options_.kernels; }
  absl::Status state() const override { return absl::OkStatus(); }
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

  // Returns the timeline of the process itself in the checker, for events that order it with
  // others. REQUIRES: there is a checker.
  AccessChecker::Timeline host_timeline() const { return host_; }

 protected:
  // Lane, with its timeline in the checker and its place in the link model.
  struct Track {
    explicit Track(Lane lane) : lane(lane) {}
    EmulatedLane lane;
    AccessChecker::Timeline timeline{};
    LanePipeline pipeline;
  };
  Track& track(Lane lane) { return tracks_[static_cast<size_t>(lane)]; }
  std::span<Track> tracks() { return tracks_; }
  AccessChecker* checker() const { return checker_; }
  // Returns the virtual time that the lanes have reached.
  absl::Time now() const { return now_; }
  // Runs all events up to the clock's time, in the order of their times.
  void Advance();
  // Advances, and checks that the lane takes an operation. Errors: as Signal().
  absl::Status CheckOpen(Lane lane);
  // Makes an operation without steps, submitted now.
  EmulatedOperation NewOperation(Lane lane);
  // Draws the moment of a step, 0..1.
  double MomentOfRun();
  // Adds a batch of either kind to its lane. REQUIRES: the lane is open.
  virtual Ticket AddCopy(Lane lane, EmulatedOperation copy) {
    return track(lane).lane.Add(std::move(copy));
  }

 private:
  absl::Status CheckBatch(const CopyBatch& batch) const;
  // Makes the operation of a batch of this shape, without its steps.
  EmulatedOperation NewCopy(const CopyShape& shape);
  void AddMoves(const CopyBatch& batch, EmulatedOperation* operation);
  void AddBlocks(CopyDirection direction, const std::shared_ptr<const EmulatedBlocks>& blocks,
                 EmulatedOperation* operation);
  absl::Time NextEvent() const;
  bool idle() const;

  const Clock* const clock_;
  const Options options_;
  const std::string name_ = "emulated";
  AccessChecker* const checker_;
  AccessChecker::Timeline host_{};
  PinnedMemory pinned_;
  std::array<Track, kLanes> tracks_{Track(Lane::kOnboard), Track(Lane::kOffload),
                                    Track(Lane::kCompute)};
  std::mt19937_64 random_;
  absl::Time now_;
  // Clocks at the ends of operations that were not yet polled.
  std::array<std::deque<AccessChecker::VectorClock>, kLanes> end_clocks_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_DEVICE_H_
