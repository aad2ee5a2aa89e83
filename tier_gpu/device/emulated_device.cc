#include "tier_gpu/device/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/adopted_region.h"

namespace kvtier {
namespace {

using Access = AccessChecker::Access;

// Interval at which Drain() reads words that another process may write.
constexpr absl::Duration kDrainInterval = absl::Microseconds(50);

Lane OtherWay(Lane lane) { return lane == Lane::kOnboard ? Lane::kOffload : Lane::kOnboard; }

std::string HostMemoryName(std::span<const std::byte> host) {
  return absl::StrCat("host memory ", absl::Hex(reinterpret_cast<uint64_t>(host.data())));
}

}  // namespace

DeviceUuid EmulatedDevice::uuid() const {
  DeviceUuid uuid{.bytes = {'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'}};
  uuid.bytes.back() = options_.ordinal;
  return uuid;
}

EmulatedDevice::EmulatedDevice(const Clock* clock, const Options& options)
    : clock_(clock),
      options_(options),
      checker_(options.checker),
      pinned_(options.pin_chunk_bytes),
      random_(options.seed.value_or(0)),
      now_(clock->Now()) {
  if (checker_ == nullptr) return;
  constexpr std::array<const char*, kLanes> kNames = {"onboard", "offload", "compute"};
  host_ = checker_->AddTimeline(options.process);
  for (size_t i = 0; i < kLanes; ++i) {
    tracks_[i].timeline = checker_->AddTimeline(absl::StrCat(options.process, "'s ", kNames[i]));
  }
}

EmulatedDevice::~EmulatedDevice() {
  if (checker_ == nullptr) return;
  for (const std::span<std::byte> range : pinned_.Ranges()) checker_->RemoveMapping(range);
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> EmulatedDevice::CreateRegion(const RegionShape& shape,
                                                                           size_t handles) {
  KVT_RETURN_IF_ERROR(state());
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<EmulatedRegion> region,
                       EmulatedRegion::Reserve(shape, checker_));
  for (size_t i = 0; i < handles; ++i) KVT_RETURN_IF_ERROR(region->Grow());
  return region;
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> EmulatedDevice::ImportRegion(
    const RegionShape& shape, std::span<const int> descriptors, const DeviceUuid& of) {
  KVT_RETURN_IF_ERROR(CheckImport(*this, of));
  KVT_RETURN_IF_ERROR(state());
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<EmulatedRegion> region,
                       EmulatedRegion::Reserve(shape, checker_));
  for (const int descriptor : descriptors) KVT_RETURN_IF_ERROR(region->GrowBy(descriptor));
  return region;
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> EmulatedDevice::AdoptRegion(
    std::span<const std::span<std::byte>> ranges) {
  KVT_RETURN_IF_ERROR(state());
  return AdoptedRegion::Of(ranges, checker_);
}

absl::Status EmulatedDevice::Pin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(state());
  KVT_RETURN_IF_ERROR(pinned_.Add(host));
  if (checker_ != nullptr) checker_->AddMapping(host, HostMemoryName(host), 0);
  return absl::OkStatus();
}

absl::Status EmulatedDevice::Unpin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(pinned_.Remove(host));
  if (checker_ != nullptr) checker_->RemoveMapping(host);
  return absl::OkStatus();
}

absl::Status EmulatedDevice::CheckOpen(Lane lane) {
  Advance();  // A derived class may lose the device here.
  KVT_RETURN_IF_ERROR(state());
  if (!track(lane).lane.full()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("emulated device: ", kMaxLaneDepth,
                   " operations are queued on the lane, the most that may be; try again"));
}

absl::Status EmulatedDevice::CheckBatch(const CopyBatch& batch) const {
  KVT_RETURN_IF_ERROR(CheckSegments(*batch.region, batch.segments));
  for (const CopySegment& segment : batch.segments) {
    KVT_RETURN_IF_ERROR(pinned_.Check({segment.host, segment.bytes}));
  }
  return absl::OkStatus();
}

EmulatedOperation EmulatedDevice::NewOperation(Lane lane) {
  EmulatedOperation operation{.submitted = now_};
  if (checker_ == nullptr) return operation;
  const AccessChecker::Timeline timeline = track(lane).timeline;
  operation.begin = [this, timeline, submitted = checker_->Fork(host_)](EmulatedOperation*) {
    checker_->Join(timeline, submitted);
  };
  operation.end = [this, timeline, lane] {
    end_clocks_[static_cast<size_t>(lane)].push_back(checker_->Fork(timeline));
  };
  return operation;
}

double EmulatedDevice::MomentOfRun() {
  return options_.seed ? std::uniform_real_distribution<>(0, 1)(random_) : 0.5;
}

absl::StatusOr<Ticket> EmulatedDevice::Submit(const CopyBatch& batch) {
  KVT_RETURN_IF_ERROR(CheckBatch(batch));
  const Lane lane = LaneOf(batch.direction);
  KVT_RETURN_IF_ERROR(CheckOpen(lane));
  CopyShape shape = {.direction = batch.direction, .segments = batch.segments.size()};
  for (const CopySegment& segment : batch.segments) shape.bytes += segment.bytes;
  EmulatedOperation operation = NewCopy(shape);
  AddMoves(batch, &operation);
  return AddCopy(lane, std::move(operation));
}

absl::StatusOr<Ticket> EmulatedDevice::SubmitBlocks(const BlockBatch& batch) {
  if (!options_.kernels) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " was opened without kernels; must have them to move blocks"));
  }
  KVT_RETURN_IF_ERROR(CheckBlocks(batch));
  for (const BlockTransfer& block : batch.blocks) {
    KVT_RETURN_IF_ERROR(pinned_.Check({block.host, batch.block_bytes}));
  }
  KVT_RETURN_IF_ERROR(pinned_.Check(std::as_bytes(std::span(batch.outcomes, 1))));
  const Lane lane = LaneOf(batch.direction);
  KVT_RETURN_IF_ERROR(CheckOpen(lane));
  const auto blocks = std::make_shared<const EmulatedBlocks>(batch);
  EmulatedOperation operation = NewCopy(blocks->shape());
  AddBlocks(batch.direction, blocks, &operation);
  return AddCopy(lane, std::move(operation));
}

EmulatedOperation EmulatedDevice::NewCopy(const CopyShape& shape) {
  EmulatedOperation operation = NewOperation(LaneOf(shape.direction));
  operation.begin = [this, shape, first = std::move(operation.begin)](EmulatedOperation* self) {
    if (first) first(self);
    const Lane lane = LaneOf(shape.direction);
    CopyShape beside = shape;
    beside.duplex = track(OtherWay(lane)).lane.busy();
    // Launches and kernels may overlap with earlier batches, so the model counts from the
    // submission.
    const absl::Time end = options_.link.Advance(beside, self->submitted, &track(lane).pipeline);
    self->run = end - self->began;
  };
  return operation;
}

void EmulatedDevice::AddMoves(const CopyBatch& batch, EmulatedOperation* operation) {
  const bool to_device = batch.direction == CopyDirection::kHostToDevice;
  const AccessChecker::Timeline timeline = track(LaneOf(batch.direction)).timeline;
  for (const CopySegment& segment : batch.segments) {
    std::byte* const device = batch.region->address() + segment.device_offset;
    const std::span<const std::byte> source(to_device ? segment.host : device, segment.bytes);
    std::byte* const destination = to_device ? device : segment.host;
    const auto act = [this, timeline, source, destination] {
      if (checker_ != nullptr) {
        checker_->Note(timeline, Access::kRead, source);
        checker_->Note(timeline, Access::kWrite, {destination, source.size()});
      }
      std::memcpy(destination, source.data(), source.size());
    };
    operation->steps.push_back({.at = MomentOfRun(), .act = act});
  }
  // Without a seed all steps run at one moment, in their order.
  if (options_.seed) std::ranges::sort(operation->steps, {}, &EmulatedStep::at);
}

void EmulatedDevice::AddBlocks(CopyDirection direction,
                               const std::shared_ptr<const EmulatedBlocks>& blocks,
                               EmulatedOperation* operation) {
  const bool onboard = direction == CopyDirection::kHostToDevice;
  const Access of_host = onboard ? Access::kRead : Access::kWrite;
  const Access of_device = onboard ? Access::kWrite : Access::kRead;
  const AccessChecker::Timeline timeline = track(LaneOf(direction)).timeline;
  for (size_t i = 0; i < blocks->size(); ++i) {
    const auto act = [this, timeline, of_host, of_device, blocks, i] {
      if (checker_ != nullptr) {
        checker_->Note(timeline, of_host, blocks->host(i));
        blocks->VisitDevice(i, [this, timeline, of_device](std::span<const std::byte> run) {
          checker_->Note(timeline, of_device, run);
        });
      }
      blocks->Move(i);
    };
    operation->steps.push_back({.at = MomentOfRun(), .act = act});
  }
  if (options_.seed) std::ranges::sort(operation->steps, {}, &EmulatedStep::at);
}

absl::StatusOr<Ticket> EmulatedDevice::Signal(Lane lane, SignalWord* word, uint64_t value) {
  KVT_RETURN_IF_ERROR(CheckOpen(lane));
  EmulatedOperation operation = NewOperation(lane);
  Track& signalling = track(lane);
  // Signals when the turn begins, where it can still change the status with which the operation
  // ends.
  operation.begin = [this, &signalling, word, value, known = signalling.lane.reported_failures(),
                     first = std::move(operation.begin)](EmulatedOperation* self) {
    if (first) first(self);
    if (signalling.lane.failures() != known) {
      self->status = absl::UnavailableError(
          "emulated device: nothing was signalled, because an operation before it failed");
      return;
    }
    if (checker_ != nullptr) checker_->Release(signalling.timeline, word);
    word->store(value, std::memory_order_release);
  };
  return signalling.lane.Add(std::move(operation));
}

absl::StatusOr<Ticket> EmulatedDevice::Await(Lane lane, SignalWord* word, uint64_t value) {
  KVT_RETURN_IF_ERROR(CheckOpen(lane));
  EmulatedOperation operation = NewOperation(lane);
  operation.ready = [word, value] { return word->load(std::memory_order_acquire) >= value; };
  operation.end = [this, &waiting = track(lane), word, ended = std::move(operation.end)] {
    waiting.pipeline.Fence(now_);
    if (checker_ == nullptr) return;
    checker_->Acquire(waiting.timeline, word);
    ended();
  };
  return track(lane).lane.Add(std::move(operation));
}

void EmulatedDevice::Raise(SignalWord* word, uint64_t value) {
  if (checker_ != nullptr) checker_->Release(host_, word);
  word->store(value, std::memory_order_release);
}

bool EmulatedDevice::Reached(const SignalWord& word, uint64_t value) {
  if (word.load(std::memory_order_acquire) < value) return false;
  if (checker_ != nullptr) checker_->Acquire(host_, &word);
  return true;
}

absl::Time EmulatedDevice::NextEvent() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Track& track : tracks_) next = std::min(next, track.lane.NextEvent(now_));
  return next;
}

void EmulatedDevice::Advance() {
  const absl::Time now = clock_->Now();
  while (true) {
    absl::Time next = NextEvent();
    if (next > now) {
      if (now_ >= now) return;
      // Looks once more at the current time, for words that another process has raised.
      now_ = now;
      continue;
    }
    next = std::max(next, now_);
    for (Track& track : tracks_) {
      if (track.lane.NextEvent(now_) > next) continue;
      now_ = next;
      track.lane.RunEvent(next);
      break;
    }
  }
}

size_t EmulatedDevice::Poll(std::span<Completion> ended) {
  Advance();
  size_t count = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    while (count < ended.size() && tracks_[i].lane.TakeEnded(&ended[count])) {
      ++count;
      if (end_clocks_[i].empty()) continue;
      checker_->Join(host_, end_clocks_[i].front());
      end_clocks_[i].pop_front();
    }
  }
  return count;
}

absl::Time EmulatedDevice::next_poll() const { return NextEvent(); }

bool EmulatedDevice::idle() const {
  return std::ranges::all_of(tracks_, [](const Track& track) { return track.lane.idle(); });
}

absl::Status EmulatedDevice::Drain(absl::Duration timeout) {
  const absl::Time deadline = clock_->Now() + timeout;
  while (true) {
    Advance();
    KVT_RETURN_IF_ERROR(state());
    if (idle()) return absl::OkStatus();
    const absl::Time now = clock_->Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("emulated device: still busy after ", absl::FormatDuration(timeout)));
    }
    const absl::Time until = std::min({deadline, NextEvent(), now + kDrainInterval});
    if (options_.wait) {
      options_.wait(until);
    } else {
      absl::SleepFor(until - now);
    }
  }
}

}  // namespace kvtier
