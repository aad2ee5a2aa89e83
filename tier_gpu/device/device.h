// Device is the accelerator seam (law 9). It has memory that another process can map by file
// descriptor; lanes of ordered copies between it and host memory, of bytes or of blocks that are
// encoded on the way; and words in shared memory by which lanes, compute and processes wait for
// each other. It has two forms: EmulatedDevice (memfds and virtual time), and CudaDevice, which is
// compiled when CUDA is found and opened when a GPU is there.
//
// Only Drain() waits for the device. Callers learn by polling what has ended.
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

// Queue of operations that run in order on the device. Operations of different lanes are ordered
// only by Signal() and Await(). kCompute is where the engine's own kernels run: we put no copy on
// it, but it signals and waits like the others.
enum class Lane : uint8_t { kOnboard, kOffload, kCompute };
inline constexpr size_t kLanes = 3;

constexpr Lane LaneOf(CopyDirection direction) {
  return direction == CopyDirection::kHostToDevice ? Lane::kOnboard : Lane::kOffload;
}

// Maximum number of operations of one lane that were submitted and whose end was not yet polled. A
// CUDA stream that queues about 1,000 entries makes its caller wait, so a lane refuses earlier.
inline constexpr size_t kMaxLaneDepth = 64;

// Name of an operation: the sequence counts each lane's operations from 1.
struct Ticket {
  Lane lane{};
  uint64_t sequence = 0;
  bool operator==(const Ticket&) const = default;
};

// Batch of copies that the copy engine makes unchanged, with a descriptor for each segment.
struct CopyBatch {
  CopyDirection direction{};
  DeviceRegion* region = nullptr;
  // Segments, in no particular order. Submit() copies the list. REQUIRES: no destination overlaps
  // another or a source.
  std::span<const CopySegment> segments;
};

struct Completion {
  Ticket ticket;
  // kUnavailable: the operation failed, and the content of its destination is undefined. It touches
  // nothing any more, unless IsAbandoned().
  absl::Status status;
  // Duration of the operation's turn in the lane: from when it was submitted and everything before
  // it had ended, until its end. Work that ran earlier, beside the operations before it, is not
  // counted, so the times of consecutive batches add up to the lane's time.
  absl::Duration device;
};

// Returns the status of an operation that a lost device gave up and that may run on as long as the
// process lives. Until the process ends, whatever the operation reads or writes, slots included,
// must not be used for anything else. `lost` is the device's state.
absl::Status Abandoned(const absl::Status& lost);
// Returns whether a status, also one that was passed on, came from Abandoned().
bool IsAbandoned(const absl::Status& status);

// Checks segments, on behalf of every Device::Submit(). Errors: kInvalidArgument: more than
// kMaxCopySegments, or a segment that is empty, leaves the region or crosses the border between two
// of its handles.
absl::Status CheckSegments(const DeviceRegion& region, std::span<const CopySegment> segments);

class Device {
 public:
  virtual ~Device() = default;
  // Returns "emulated" or the GPU's name.
  virtual const std::string& name() const = 0;
  // Returns the UUID of the GPU. An emulated device's UUID names its ordinal, and is the same in
  // every process.
  virtual DeviceUuid uuid() const = 0;
  // Returns the NUMA node whose memory is nearest to the device; nullopt: there is none, or it is
  // unknown.
  virtual std::optional<int> numa_node() const = 0;
  // Returns whether the device runs kernels, and so takes SubmitBlocks().
  virtual bool has_kernels() const = 0;
  // Returns an error that says why, if the device is lost. It stays lost: every operation ends with
  // kUnavailable (with an error that IsAbandoned(), if it may still run), regions keep their bytes
  // as long as the driver does, and host and disk tiers go on serving. Every method up to Unpin()
  // may be called on any thread.
  virtual absl::Status state() const = 0;
  // Allocates memory of the device, at first `handles` handles of the shape. Errors:
  // kResourceExhausted, no memory; kUnavailable, the device is lost.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(const RegionShape& shape,
                                                                     size_t handles) = 0;
  // Maps the memory of another process's region, by duplicates of its descriptors, in their order.
  // `of` is the device of that region. Errors: kFailedPrecondition, `of` is another GPU, which this
  // process knows by another ordinal; kInvalidArgument, a descriptor is no handle of this shape;
  // kUnavailable, the device is lost or cannot map them.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> ImportRegion(
      const RegionShape& shape, std::span<const int> descriptors, const DeviceUuid& of) = 0;
  // Makes a region of device memory that the caller owns, such as an engine's tensors, given by the
  // addresses that the device sees (emulated: the process's own). REQUIRES: the memory stays until
  // the region is gone. Errors: kInvalidArgument, naming the range: as AdoptedRegion::Of(), or the
  // range is not wholly memory of this device; kUnavailable, the device is lost.
  virtual absl::StatusOr<std::unique_ptr<DeviceRegion>> AdoptRegion(
      std::span<const std::span<std::byte>> ranges) = 0;
  // Page-locks host memory for copies, in chunks of kPinChunkBytes, all or none. No segment may
  // cross the border between two chunks. REQUIRES: it stays mapped until Unpin() or the device's
  // end. Errors: kResourceExhausted; kInvalidArgument, empty or overlapping pinned memory;
  // kUnavailable, the device is lost.
  virtual absl::Status Pin(std::span<std::byte> host) = 0;
  // Undoes Pin(). REQUIRES: no copy uses the memory. Errors: kNotFound, the range was not given to
  // Pin().
  virtual absl::Status Unpin(std::span<std::byte> host) = 0;

  // The methods below use the lanes and are called by one thread at a time. Each of the first four
  // appends one operation to a lane and returns at once. Errors of these four: kResourceExhausted,
  // the lane is full (poll, then retry); kUnavailable, the device is lost; kFailedPrecondition, the
  // lane is an engine's stream that captures a graph.

  // Copies every segment. Sources are read while the batch runs, not when it is submitted.
  // REQUIRES: the host memory stays until the batch has ended, and the region is this device's.
  // Errors: also kInvalidArgument, as CheckSegments(), or host memory that is not pinned, or not
  // within one chunk.
  virtual absl::StatusOr<Ticket> Submit(const CopyBatch& batch) = 0;
  // Moves every block between the engine's rows and its stored form, and writes the outcomes. When
  // the batch has ended all outcomes are written, and no later word of the lane is written earlier.
  // Sources are read while the batch runs. An invalid encoding fails its block and not the batch.
  // REQUIRES: as Submit(), also for the outcomes.
  // Errors: also kInvalidArgument, as CheckBlocks(), or host memory or outcomes that are not
  // pinned, or not within one chunk, or a device that was opened without kernels or for smaller
  // blocks.
  virtual absl::StatusOr<Ticket> SubmitBlocks(const BlockBatch& batch) = 0;
  // Writes the word when everything before it in the lane has ended; a reader that sees the value
  // also sees what the lane wrote before. The word is not written, and the operation ends with
  // kUnavailable, if an earlier operation of the lane failed and its end was not yet polled at this
  // call.
  virtual absl::StatusOr<Ticket> Signal(Lane lane, SignalWord* word, uint64_t value) = 0;
  // Makes the lane wait until the word is `value` or more; it then also sees what the writer of the
  // word wrote before. A word whose writer died must be released (SignalPage), or the lane waits
  // for ever. REQUIRES, also for Signal(): the word is in a page that is pinned.
  virtual absl::StatusOr<Ticket> Await(Lane lane, SignalWord* word, uint64_t value) = 0;
  // Returns whether the operation, and everything before it in its lane, needs no more calls of
  // this process, so that a wait for it on the device depends on the device alone. Until then it
  // advances only with Poll(). Emulated: always true, although all emulated lanes need polls.
  virtual bool HandedOver(const Ticket& ticket) const = 0;

  // Signal and wait from the host, without a lane, on any thread. A reader that sees the value of
  // Raise() sees what this process wrote before. Reached() returns true when the word is `value` or
  // more, and what its writer wrote before is then visible.
  virtual void Raise(SignalWord* word, uint64_t value) = 0;
  virtual bool Reached(const SignalWord& word, uint64_t value) = 0;

  // Fills `ended` with operations that have ended, each once, in the order of its lane, and returns
  // how many. Their places in the lanes are free again. Lanes advance only while somebody polls.
  // `ended` may be empty.
  virtual size_t Poll(std::span<Completion> ended) = 0;
  // Returns when the next poll is useful, as far as is known; InfiniteFuture: nothing runs.
  virtual absl::Time next_poll() const = 0;
  // Waits until everything that was submitted has ended; Poll() still reports the ends. Errors:
  // kDeadlineExceeded, something still runs; kUnavailable, the device is lost.
  virtual absl::Status Drain(absl::Duration timeout) = 0;
};

// Checks `of`, on behalf of every ImportRegion(). Errors: kFailedPrecondition, `of` is another
// device.
absl::Status CheckImport(const Device& device, const DeviceUuid& of);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_DEVICE_H_
