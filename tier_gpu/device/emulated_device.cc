#include "tier_gpu/device/emulated_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "kernels/copy_segments.h"

namespace kvtier {
namespace {

absl::Status Failed(const char* call, uint64_t bytes) {
  const std::string why = std::generic_category().message(errno);
  return absl::ResourceExhaustedError(
      absl::StrCat("emulated device: a region of ", bytes, " bytes: ", call, ": ", why));
}

class EmulatedRegion final : public DeviceRegion {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceRegion>> Create(uint64_t bytes) {
    const int fd = memfd_create("kvtier-emulated-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return Failed("memfd_create", bytes);
    auto region = absl::WrapUnique(new EmulatedRegion(fd));
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return Failed("ftruncate", bytes);
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return Failed("F_ADD_SEALS", bytes);
    void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED) return Failed("mmap", bytes);
    region->memory_ = {static_cast<std::byte*>(start), bytes};
    return region;
  }
  ~EmulatedRegion() override {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
    close(fd_);
  }
  uint64_t bytes() const override { return memory_.size(); }
  int fd() const override { return fd_; }
  std::byte* memory() const { return memory_.data(); }

 private:
  explicit EmulatedRegion(int fd) : fd_(fd) {}
  const int fd_;
  std::span<std::byte> memory_;  // Set once, by Create().
};

void MoveBytes(CopyDirection direction, std::byte* memory, std::span<const CopySegment> segments) {
  std::vector<kernels::StridedSegment> moves;
  moves.reserve(segments.size());
  for (const CopySegment& segment : segments) {
    std::byte* const device = memory + segment.device_offset;
    const bool to_device = direction == CopyDirection::kHostToDevice;
    moves.push_back({.source = to_device ? segment.host : device,
                     .destination = to_device ? device : segment.host,
                     .run_bytes = segment.bytes});
  }
  const kernels::CopySegmentsLaunch launch = {.segments = moves.data(),
                                              .count = static_cast<uint32_t>(moves.size())};
  KVT_CHECK(kernels::CopySegmentsOnHost(launch) == 0);
}

}  // namespace

EmulatedDevice::EmulatedDevice(Executor* executor, ByteWorkers* workers, const Options& options)
    : executor_(executor),
      workers_(workers),
      link_(options.link),
      lost_(executor),
      lanes_{Lane(executor), Lane(executor)} {}

absl::StatusOr<std::unique_ptr<DeviceRegion>> EmulatedDevice::CreateRegion(uint64_t bytes) {
  if (lost_.is_set()) return LostError();
  return EmulatedRegion::Create(bytes);
}

absl::Status EmulatedDevice::Pin(std::span<std::byte>) {
  // All host memory is as near to a memfd as any other.
  return lost_.is_set() ? LostError() : absl::OkStatus();
}

Task<absl::Status> EmulatedDevice::Copy(CopyDirection direction, DeviceRegion* region,
                                        std::span<const CopySegment> segments) {
  KVT_CHECK(executor_->OnExecutor());
  auto* const emulated = dynamic_cast<EmulatedRegion*>(region);
  KVT_CHECK(emulated != nullptr);
  KVT_CO_RETURN_IF_ERROR(CheckSegments(emulated->bytes(), segments));
  if (lost_.is_set()) co_return LostError();
  Lane& taken = lane(direction);
  KVT_CO_ASSIGN_OR_RETURN(CopyLane::Turn turn, taken.line.Join());
  co_await turn.Begun();
  while (taken.stalled != nullptr) {
    const std::shared_ptr<Event> stalled = taken.stalled;
    co_await stalled->WaitUntil(absl::InfiniteFuture());
  }
  co_return co_await RunBatch(&taken, direction, emulated->memory(), segments);
}

Task<absl::Status> EmulatedDevice::RunBatch(Lane* lane, CopyDirection direction, std::byte* memory,
                                            std::span<const CopySegment> segments) {
  uint64_t bytes = 0;
  for (const CopySegment& segment : segments) bytes += segment.bytes;
  const bool fails = lane->fail_in == 1;
  if (lane->fail_in > 0) --lane->fail_in;
  if (fails) segments = segments.first(segments.size() / 2);

  const absl::Time start = executor_->Now();
  const CopyShape shape = {.direction = direction, .segments = segments.size(), .bytes = bytes};
  const absl::Duration time = link_.Predict(shape);
  // True, and at once, when the device is lost.
  bool lost = co_await lost_.WaitUntil(start + time / 2);
  if (lost) co_return LostError();
  ByteWorkers::Work move = [direction, memory, segments] {
    MoveBytes(direction, memory, segments);
  };
  co_await workers_->Run(std::move(move));
  lost = co_await lost_.WaitUntil(start + time);
  if (lost) co_return LostError();
  if (fails) co_return absl::UnavailableError("emulated device: a copy failed, as was asked");
  co_return absl::OkStatus();
}

void EmulatedDevice::FailCopy(CopyDirection direction, uint64_t nth) {
  KVT_CHECK(nth > 0);
  lane(direction).fail_in = nth;
}

void EmulatedDevice::Stall(CopyDirection direction) {
  Lane& stalling = lane(direction);
  if (stalling.stalled == nullptr && !lost_.is_set()) {
    stalling.stalled = std::make_shared<Event>(executor_);
  }
}

void EmulatedDevice::Resume(CopyDirection direction) {
  const std::shared_ptr<Event> stalled = std::exchange(lane(direction).stalled, nullptr);
  if (stalled != nullptr) stalled->Set();
}

void EmulatedDevice::Lose() {
  lost_.Set();
  Resume(CopyDirection::kHostToDevice);
  Resume(CopyDirection::kDeviceToHost);
}

absl::Status EmulatedDevice::LostError() const {
  return absl::UnavailableError("emulated device: lost");
}

}  // namespace kvtier
