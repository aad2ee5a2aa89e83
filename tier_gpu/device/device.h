// Device is the accelerator seam (law 9): memory that another process can map by file
// descriptor, lanes of ordered copies between it and host memory, of bytes or of blocks
// that are encoded on the way, and words in shared memory by which lanes, compute and
// processes wait for each other. Two forms:
// EmulatedDevice (memfds and virtual time) and CudaDevice, compiled when CUDA is found
// and opened when a GPU is there.
//
// Nothing here waits for the device, but Drain(). What ended is learnt by polling.
#ifndef KVTIER_TIER_GPU_DEVICE_DEVICE_H_
#define KVTIER_TIER_GPU_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/device_uuid.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/device/device_region.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier {

// What runs in order on the device. Lanes are not ordered with each other, except by
// signals. kCompute is where the engine's own kernels run: no copy of ours is ever on
// it, but it signals and waits like the others.
enum class Lane : uint8_t { kOnboard, kOffload, kCompute };
inline constexpr size_t kLanes = 3;

constexpr Lane LaneOf(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? Lane::kOnboard : Lane::kOffload;
}

// Operations of one lane that were submitted and whose end was not polled yet. A CUDA
// stream that queues about 1,000 makes its caller wait, so a lane refuses before.
inline constexpr size_t kMaxLaneDepth = 64;

// Names an operation: the sequence counts each lane's from 1.
struct Ticket {
  Lane lane{};
  uint64_t sequence = 0;
  bool operator==(const Ticket&) const = default;
};

// Batch of copies that the copy engine makes as they are, with a descriptor for each segment.
struct CopyBatch {
  CopyDirection direction{};
  DeviceRegion* region = nullptr;
  // Copied by Submit(). In no order among each other. REQUIRES: no destination
  // overlaps another or a source.
  std::span<const CopySegment> segments;
};

struct Completion {
  Ticket ticket;
  // kUnavailable: the operation failed; a destination is undefined. It touches nothing any
  // more, unless IsAbandoned().
  absl::Status status;
  // From the operation's turn in the lane to its end: from when all ahead of it has ended,
  // and it was submitted. What of it ran before, beside what was ahead, is not in it, so
  // that the times of batches one behind the other add up to the lane's.
  absl::Duration device;
};

// The end of an operation that a lost device gave up and that may run on for as long as the
// process lives: whatever it reads or writes, slots included, must not be used for anything
// else until then. `lost` is the device's state.
absl::Status Abandoned(const absl::Status& lost);
// Whether a status, also one that was passed on, is such an end.
bool IsAbandoned(const absl::Status& status);

// The check of every Device::Submit(). Errors: kInvalidArgument: more than
// kMaxCopySegments, or a segment that is empty, leaves the region or crosses the border of two of
// its handles.
absl::Status CheckSegments(const DeviceRegion& region, std::span<const CopySegment> segments);

class Device {
 public:
  virtual ~Device() = default;
  // "emulated" or the GPU's name.
  virtual const std::string& name() const = 0;
  // UUID of the GPU; an emulated device has its own, the same in every process.
  virtual DeviceUuid uuid() const = 0;
  // NUMA node whose memory is nearest to the device; nullopt: it has none, or nobody says.
  virtual std::optional<int> numa_node() const = 0;
  // It runs kernels, and so takes SubmitBlocks().
  virtual bool has_kernels() const = 0;
  // Not OK: the device is lost, and why. For good: every operation ends with
  // kUnavailable (one that may still run, as IsAbandoned()), regions keep their bytes while
  // the driver does, and host and disk tiers serve on. Any thread, like all of this group.
  virtual absl::Status state() const = 0;
  // Memory of the device, `handles` of the shape's to begin with. Errors:
  // kResourceExhausted, no memory; kUnavailable, the device is lost.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(const RegionShape& shape,
                                                                     size_t handles) = 0;
  // The memory of another process's region, by duplicates of its descriptors, in their
  // order; `of` is the device that the region is on. Errors: kFailedPrecondition, that is another
  // GPU, which this process knows by another ordinal; kInvalidArgument, a descriptor that is no
  // handle of this shape;
  // kUnavailable, the device is lost or cannot map them.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> ImportRegion(
      const RegionShape& shape, std::span<const int> descriptors, const DeviceUuid& of) = 0;
  // Memory of this device that the caller owns: an engine's tensors, by the addresses that
  // the device sees (emulated: the process's own). REQUIRES: it stays until the region is
  // gone. Errors: kInvalidArgument, naming the range: as AdoptedRegion::Of(), or not wholly
  // memory of this device; kUnavailable, the device is lost.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> AdoptRegion(
      std::span<const std::span<std::byte>> ranges) = 0;
  // Makes host memory fit for copies (page-locked), in chunks of kPinChunkBytes, all or
  // none; no segment may cross the border of two. REQUIRES: it stays mapped until
  // Unpin() or the device's end. Errors: kResourceExhausted; kInvalidArgument, empty
  // or overlapping what is pinned; kUnavailable, the device is lost.
  virtual absl::Status Pin(std::span<std::byte> host) = 0;
  // REQUIRES: no copy uses it. Errors: kNotFound, not what was given to Pin().
  virtual absl::Status Unpin(std::span<std::byte> host) = 0;

  // The lanes, one thread at a time. Each call puts one operation at the end of a lane
  // and returns at once. Errors of all five: kResourceExhausted, the lane is full
  // (poll, then retry); kUnavailable, the device is lost; kFailedPrecondition, the lane is
  // an engine's stream that captures a graph.

  // Copies every segment. Sources are read while the batch runs, not when it is
  // submitted. Errors also: kInvalidArgument, as CheckSegments(), or host memory that
  // is not pinned, or not in one chunk.
  // REQUIRES: the host memory stays until the batch has ended, and the region is this
  // device's.
  virtual absl::StatusOr<Ticket> Submit(const CopyBatch& batch) = 0;
  // Moves every block between the rows of the engine and its stored form, and writes the
  // outcomes; all of them are there, and no later word of the lane's is written before,
  // when the batch has ended. Sources are read while it runs. An encoding that is none
  // fails its block and not the batch. Errors also: kInvalidArgument, as CheckBlocks(),
  // or host memory or outcomes that are not pinned, or not in one chunk, or a device that
  // was opened without kernels or for smaller blocks. REQUIRES: as Submit(), of the
  // outcomes too.
  virtual absl::StatusOr<Ticket> SubmitBlocks(const BlockBatch& batch) = 0;
  // Writes the word when everything ahead in the lane has ended; whoever sees the value
  // sees what the lane wrote before. Not written, and ends with kUnavailable, if
  // something ahead in the lane failed whose end was not polled when this was called.
  virtual absl::StatusOr<Ticket> Signal(Lane lane, SignalWord* word, uint64_t value) = 0;
  // The lane goes on when the word is `value` or more, and then sees what whoever wrote
  // it wrote before. A word whose writer died must be released (SignalPage), or the
  // lane never goes on. REQUIRES of both: the word is of a page that is pinned.
  virtual absl::StatusOr<Ticket> Await(Lane lane, SignalWord* word, uint64_t value) = 0;
  // The operation, and all ahead of it in its lane, needs no more calls of this process:
  // what waits for it on the device waits for the device alone. Before, only Poll() lets
  // it go on. Emulated: true at once, though all of its lanes need polls.
  virtual bool HandedOver(const Ticket& ticket) const = 0;

  // The same from the host, without a lane, on any thread: Raise() is seen after what
  // this process wrote before; Reached() is true when the word is `value` or more, and
  // what its writer wrote before is seen.
  virtual void Raise(SignalWord* word, uint64_t value) = 0;
  virtual bool Reached(const SignalWord& word, uint64_t value) = 0;

  // Fills `ended` with what has ended since, each operation once, in the order of its
  // lane; returns how many. Their places in the lanes are free again. Lanes go on only
  // while somebody polls; `ended` may be empty.
  virtual size_t Poll(std::span<Completion> ended) = 0;
  // When it is worth polling again, as far as is known; InfiniteFuture, nothing runs.
  virtual absl::Time next_poll() const = 0;
  // Waits until all that was submitted has ended; Poll() still tells how. Errors:
  // kDeadlineExceeded, something still runs; kUnavailable, the device is lost.
  virtual absl::Status Drain(absl::Duration timeout) = 0;
};

// The check of every ImportRegion(). Errors: kFailedPrecondition, `of` is another device.
absl::Status CheckImport(const Device& device, const DeviceUuid& of);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_DEVICE_H_
