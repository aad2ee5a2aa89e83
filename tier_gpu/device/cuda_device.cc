#include "tier_gpu/device/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "tier_gpu/device/adopted_region.h"
#include "tier_gpu/device/cuda_copies.h"
#include "tier_gpu/device/cuda_driver.h"
#include "tier_gpu/device/cuda_host_memory.h"
#include "tier_gpu/device/cuda_lane.h"
#include "tier_gpu/device/cuda_lanes.h"
#include "tier_gpu/device/cuda_region.h"
#include "tier_gpu/device/lane_depth.h"

namespace kvtier {
namespace {

// Maximum interval between polls. A portion of kMaxCopyBytes takes about 75 us on PCIe 5.0 x16.
// Longer operations are polled less often: an end is noticed late by at most an eighth of the time
// the operation took.
constexpr absl::Duration kMaxPollInterval = absl::Microseconds(500);
// Interval between checks for CUDA errors. A word cannot report an error, so CUDA is asked after no
// word has changed for this long.
constexpr absl::Duration kErrorCheckInterval = absl::Milliseconds(10);
// Maximum time to wait for operations that still run on a device that is lost or being closed.
constexpr absl::Duration kStopTimeout = absl::Seconds(1);
constexpr absl::Duration kWaitInterval = absl::Microseconds(50);

DeviceUuid UuidOf(const cudaDeviceProp& properties) {
  DeviceUuid uuid;
  std::memcpy(uuid.bytes.data(), properties.uuid.bytes, uuid.bytes.size());
  return uuid;
}

// Returns the NUMA node of the GPU's PCI slot, as the kernel reports it; nullopt: the kernel does
// not know it, or has no NUMA.
std::optional<int> NumaNodeOf(const cudaDeviceProp& properties) {
  const std::string path =
      absl::StrFormat("/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", properties.pciDomainID,
                      properties.pciBusID, properties.pciDeviceID);
  std::ifstream file(path);
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaOptions& options, const Clock* clock, const CudaDriver& driver,
             const CudaContext& context, const cudaDeviceProp& properties)
      : options_(options),
        clock_(clock),
        driver_(driver),
        context_(context),
        name_(properties.name),
        uuid_(UuidOf(properties)),
        numa_node_(NumaNodeOf(properties)),
        host_(context, options.pin_chunk_bytes),
        lanes_(std::make_unique<CudaLanes>(driver, LanesOf(options))) {}
  absl::Status Open();
  ~CudaDevice() override;

  const std::string& name() const override { return name_; }
  DeviceUuid uuid() const override { return uuid_; }
  std::optional<int> numa_node() const override { return numa_node_; }
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
  bool HandedOver(const Ticket& ticket) const override {
    return lanes_->of(ticket.lane).HandedOver(ticket.sequence);
  }
  void Raise(SignalWord* word, uint64_t value) override;
  bool Reached(const SignalWord& word, uint64_t value) override;
  size_t Poll(std::span<Completion> ended) override;
  absl::Time next_poll() const override;
  absl::Status Drain(absl::Duration timeout) override;

 private:
  static CudaLanes::Options LanesOf(const CudaOptions& options);
  absl::Status CheckBatch(const CopyBatch& batch) const;
  absl::Status CheckOpen(Lane lane);
  // Returns kFailedPrecondition if the lane captures a graph: a word or a copy would become part of
  // the graph, and run only when the graph does.
  absl::Status CheckNoCapture(Lane lane);
  std::vector<CudaCommand> CommandsOf(const CopyBatch& batch);
  // Adds the operation and feeds its lane. An error of Feed() makes the device lost, and the
  // operation then ends as all others do.
  Ticket Add(Lane lane, CudaLane::Kind kind, std::vector<CudaCommand> commands);
  CUdeviceptr OnDevice(const SignalWord* word) const;
  // Observes what has ended, feeds the lanes, and finds errors that no word reports.
  void Advance();
  bool AsksForErrors(absl::Time now) const;
  void FindErrors(absl::Time now);
  // Makes the device lost: every operation from now on ends with kUnavailable.
  void Lose(const absl::Status& error);
  // Ends all operations of a lost device once nothing runs any more, or after kStopTimeout. Memory
  // may still be in use after kStopTimeout, because only an error that CUDA repeats for every call
  // ends all work.
  void AbandonWhenQuiet(absl::Time now);

  const CudaOptions options_;
  const Clock* const clock_;
  const CudaDriver driver_;
  const CudaContext context_;
  const std::string name_;
  const DeviceUuid uuid_;
  const std::optional<int> numa_node_;
  CudaHostMemory host_;
  std::unique_ptr<CudaLanes> lanes_;
  const std::shared_ptr<CopiesAbandoned> abandoned_ = std::make_shared<CopiesAbandoned>(false);
  absl::Time asked_ = absl::InfinitePast();  // Time at which CUDA was last asked for errors.
  absl::Time lost_at_ = absl::InfiniteFuture();
  mutable absl::Mutex mu_;
  absl::Status state_ ABSL_GUARDED_BY(mu_);
};

CudaLanes::Options CudaDevice::LanesOf(const CudaOptions& options) {
  CudaLanes::Options lanes = {.kernels = options.kernels, .largest_block = options.largest_block};
  if (options.compute_stream) {
    lanes.compute_stream = static_cast<cudaStream_t>(*options.compute_stream);
  }
  return lanes;
}

absl::Status CudaDevice::Open() {
  const CudaScope scope(context_);
  return lanes_->Open();
}

CudaDevice::~CudaDevice() {
  const CudaScope scope(context_);
  const absl::Time deadline = MonotonicClock().Now() + kStopTimeout;
  while (!lanes_->Quiet() && MonotonicClock().Now() < deadline) absl::SleepFor(kWaitInterval);
  if (!lanes_->Quiet()) {
    Log(LogLevel::kWarning,
        absl::StrCat(name_,
                     " was closed while work still ran on it; the memory that the work uses "
                     "is freed when the process ends"));
    // NOLINT(bugprone-unused-return-value): the lanes stay until the process ends.
    (void)lanes_.release();
    return;
  }
  lanes_.reset();
  host_.UnpinAll();
}

absl::Status CudaDevice::state() const {
  const absl::MutexLock lock(&mu_);
  return state_;
}

void CudaDevice::Lose(const absl::Status& error) {
  lost_at_ = std::min(lost_at_, clock_->Now());
  const absl::MutexLock lock(&mu_);
  if (!state_.ok()) return;
  state_ = absl::UnavailableError(absl::StrCat(name_, " is lost: ", std::string(error.message())));
  Log(LogLevel::kError, std::string(state_.message()));
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> CudaDevice::CreateRegion(const RegionShape& shape,
                                                                       size_t handles) {
  KVT_RETURN_IF_ERROR(state());
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<CudaRegion> region,
                       CudaRegion::Reserve(driver_, context_, shape, abandoned_));
  for (size_t i = 0; i < handles; ++i) KVT_RETURN_IF_ERROR(region->Grow());
  return region;
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> CudaDevice::ImportRegion(
    const RegionShape& shape, std::span<const int> descriptors, const DeviceUuid& of) {
  KVT_RETURN_IF_ERROR(CheckImport(*this, of));
  KVT_RETURN_IF_ERROR(state());
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<CudaRegion> region,
                       CudaRegion::Reserve(driver_, context_, shape, abandoned_));
  for (const int descriptor : descriptors) KVT_RETURN_IF_ERROR(region->GrowBy(descriptor));
  return region;
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> CudaDevice::AdoptRegion(
    std::span<const std::span<std::byte>> ranges) {
  KVT_RETURN_IF_ERROR(state());
  for (const auto range : ranges) KVT_RETURN_IF_ERROR(CheckDeviceMemory(driver_, context_, range));
  return AdoptedRegion::Of(ranges, nullptr);
}

absl::Status CudaDevice::Pin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(state());
  return host_.Pin(host);
}

absl::Status CudaDevice::Unpin(std::span<std::byte> host) {
  return *abandoned_ ? host_.Leave(host) : host_.Unpin(host);
}

absl::Status CudaDevice::CheckBatch(const CopyBatch& batch) const {
  KVT_RETURN_IF_ERROR(CheckSegments(*batch.region, batch.segments));
  // CUDA would copy memory that is not page-locked synchronously, on the calling thread.
  for (const CopySegment& segment : batch.segments) {
    KVT_RETURN_IF_ERROR(host_.Check({segment.host, segment.bytes}));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::CheckOpen(Lane which) {
  Advance();
  KVT_RETURN_IF_ERROR(state());
  if (!lanes_->of(which).full()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(name_, ": ", kMaxLaneDepth,
                   " operations are queued on the lane, the most that may be; try again"));
}

absl::Status CudaDevice::CheckNoCapture(Lane which) {
  if (which != Lane::kCompute || !options_.compute_stream) return absl::OkStatus();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(lanes_->of(which).stream(), &capture);
  const absl::Status asked = CudaStatus("cudaStreamIsCapturing", error);
  // CUDA reports a capture for the default stream while any stream that it waits for captures.
  if (!IsOfCapture(error) && capture == cudaStreamCaptureStatusNone) return asked;
  return absl::FailedPreconditionError(
      absl::StrCat(name_,
                   ": the engine's stream is capturing a CUDA graph, in which nothing can be "
                   "signalled; call outside of the capture"));
}

std::vector<CudaCommand> CudaDevice::CommandsOf(const CopyBatch& batch) {
  const Lane which = LaneOf(batch.direction);
  const bool onboard = batch.direction == CopyDirection::kHostToDevice;
  CudaCopies copies;
  for (const CopySegment& segment : batch.segments) {
    std::byte* const far = host_.DeviceAddress(segment.host);
    std::byte* const near = batch.region->address() + segment.device_offset;
    copies.Add(onboard ? near : far, onboard ? far : near, segment.bytes);
  }
  std::vector<CudaCommand> commands;
  std::move(copies).AppendTo(&commands, CudaCommand::Where::kLane, lanes_->of(which).stream());
  return commands;
}

Ticket CudaDevice::Add(Lane which, CudaLane::Kind kind, std::vector<CudaCommand> commands) {
  const Ticket ticket = lanes_->of(which).Add(kind, std::move(commands), clock_->Now());
  const absl::Status fed = lanes_->of(which).Feed();
  if (!fed.ok()) Lose(fed);
  return ticket;
}

absl::StatusOr<Ticket> CudaDevice::Submit(const CopyBatch& batch) {
  KVT_RETURN_IF_ERROR(CheckBatch(batch));
  const Lane which = LaneOf(batch.direction);
  KVT_RETURN_IF_ERROR(CheckOpen(which));
  const CudaScope scope(context_);
  return Add(which, CudaLane::Kind::kCopy, CommandsOf(batch));
}

absl::StatusOr<Ticket> CudaDevice::SubmitBlocks(const BlockBatch& batch) {
  const Lane which = LaneOf(batch.direction);
  if (lanes_->blocks(which) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " was opened without kernels; must have them to move blocks"));
  }
  KVT_RETURN_IF_ERROR(lanes_->blocks(which)->Check(batch, host_));
  KVT_RETURN_IF_ERROR(CheckOpen(which));
  std::vector<CudaCommand> commands =
      lanes_->blocks(which)->Commands(batch, host_, lanes_->of(which).next_place());
  const CudaScope scope(context_);
  return Add(which, CudaLane::Kind::kCopy, std::move(commands));
}

CUdeviceptr CudaDevice::OnDevice(const SignalWord* word) const {
  KVT_CHECK(host_.Check(std::as_bytes(std::span(word, 1))).ok());
  return reinterpret_cast<CUdeviceptr>(host_.DeviceAddress(word));
}

absl::StatusOr<Ticket> CudaDevice::Signal(Lane which, SignalWord* word, uint64_t value) {
  KVT_CHECK(value <= kReleased);
  KVT_RETURN_IF_ERROR(CheckOpen(which));
  const CudaScope scope(context_);
  KVT_RETURN_IF_ERROR(CheckNoCapture(which));
  // The default flags make what the lane wrote before visible to a reader of the word. After an
  // error that CUDA repeats for every call, no stream runs anything more: the word stays as it is.
  return Add(which, CudaLane::Kind::kSignal,
             {{CudaCommand::Where::kLane,
               [this, stream = lanes_->of(which).stream(), at = OnDevice(word), value] {
                 return driver_.Status(
                     "cuStreamWriteValue64",
                     driver_.write_word(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT));
               }}});
}

absl::StatusOr<Ticket> CudaDevice::Await(Lane which, SignalWord* word, uint64_t value) {
  KVT_CHECK(value <= kReleased);
  KVT_RETURN_IF_ERROR(CheckOpen(which));
  const CudaScope scope(context_);
  KVT_RETURN_IF_ERROR(CheckNoCapture(which));
  // CU_STREAM_WAIT_VALUE_FLUSH is not set. It is for GPU memory that others write over the link;
  // everything that we wait for was written by a GPU's streams, or is in host memory.
  std::vector<CudaCommand> commands;
  commands.push_back({CudaCommand::Where::kLane,
                      [this, stream = lanes_->of(which).stream(), at = OnDevice(word), value] {
                        return driver_.Status(
                            "cuStreamWaitValue64",
                            driver_.wait_word(stream, at, value, CU_STREAM_WAIT_VALUE_GEQ));
                      }});
  if (lanes_->blocks(which) != nullptr) commands.push_back(lanes_->blocks(which)->Fence());
  return Add(which, CudaLane::Kind::kWord, std::move(commands));
}

void CudaDevice::Raise(SignalWord* word, uint64_t value) {
  // Pairs with the wait of a stream, or with an acquire.
  word->store(value, std::memory_order_release);
}

bool CudaDevice::Reached(const SignalWord& word, uint64_t value) {
  return word.load(std::memory_order_acquire) >= value;
}

void CudaDevice::Advance() {
  const absl::Time now = clock_->Now();
  const bool healthy = state().ok();
  // Most polls find nothing new, and make no CUDA call.
  if (healthy && !lanes_->HasWork() && !AsksForErrors(now)) return;
  const CudaScope scope(context_);
  lanes_->Observe(now);
  if (!healthy) return AbandonWhenQuiet(now);
  if (const absl::Status fed = lanes_->Feed(); !fed.ok()) return Lose(fed);
  if (AsksForErrors(now)) FindErrors(now);
}

bool CudaDevice::AsksForErrors(absl::Time now) const {
  return now - asked_ >= kErrorCheckInterval &&
         lanes_->LongestTimeSinceChange(now) >= kErrorCheckInterval;
}

void CudaDevice::FindErrors(absl::Time now) {
  asked_ = now;
  const absl::Status failed = lanes_->Failure();
  if (!failed.ok()) Lose(failed);
}

void CudaDevice::AbandonWhenQuiet(absl::Time now) {
  const bool quiet = lanes_->Quiet();
  if (!quiet && now < lost_at_ + kStopTimeout) return;
  if (!quiet) *abandoned_ = true;
  lanes_->Abandon(now, quiet ? state() : Abandoned(state()));
}

size_t CudaDevice::Poll(std::span<Completion> ended) {
  Advance();
  return lanes_->TakeEnded(ended);
}

absl::Time CudaDevice::next_poll() const {
  if (lanes_->idle()) return absl::InfiniteFuture();
  const absl::Time now = clock_->Now();
  const absl::Duration interval =
      std::min(kMaxPollInterval, lanes_->ShortestTimeSinceChange(now) / 8);
  return now + std::max(interval, kLanePollInterval);
}

absl::Status CudaDevice::Drain(absl::Duration timeout) {
  const absl::Time deadline = clock_->Now() + timeout;
  while (true) {
    Advance();
    KVT_RETURN_IF_ERROR(state());
    if (lanes_->idle()) return absl::OkStatus();
    if (clock_->Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(name_, " is still busy after ", absl::FormatDuration(timeout)));
    }
    absl::SleepFor(kWaitInterval);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options,
                                                       const Clock* clock) {
  if (options.compute_stream && *options.compute_stream == cudaStreamPerThread) {
    return absl::InvalidArgumentError(
        "compute_stream is cudaStreamPerThread; must be a stream that is the same on each thread");
  }
  KVT_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Find());
  KVT_ASSIGN_OR_RETURN(const CudaContext context, CudaContext::Open(driver, options.ordinal));
  KVT_RETURN_IF_ERROR(context.CheckAbilities());
  KVT_RETURN_IF_ERROR(CudaCopies::CheckDriver());
  cudaDeviceProp properties{};
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, options.ordinal)));
  auto device = std::make_unique<CudaDevice>(options, clock, driver, context, properties);
  KVT_RETURN_IF_ERROR(device->Open());
  return device;
}

}  // namespace kvtier
