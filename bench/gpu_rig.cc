#include "bench/gpu_rig.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/open_device.h"
#include "tier_gpu/plan/calibration.h"
#ifdef KVTIER_HAVE_CUDA
#include "bench/gpu_stream.h"
#include "tier_gpu/device/cuda_device.h"
#endif

namespace kvtier::bench {
namespace {

double SecondsSince(absl::Time start) { return absl::ToDoubleSeconds(absl::Now() - start); }

constexpr uint64_t kHugePage = uint64_t{2} << 20;

// What is never copied: memory that holds it was not reached.
constexpr int kPoisonOnHost = 0xa5;
constexpr int kPoisonOnDevice = 0x5a;

// A longer batch is none of ours, and a device may refuse it.
bool AsPlanned(std::span<const CopySegment> segments) {
  uint64_t longest = 1;
  for (const CopySegment& segment : segments) longest = std::max(longest, segment.bytes);
  return segments.size() <= BatchSegments(longest);
}

}  // namespace

HostBytes MakeHostBytes(uint64_t bytes) {
  const uint64_t page = bytes < kHugePage ? 4096 : kHugePage;
  HostBytes made(
      static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page)));
  KVT_CHECK(made != nullptr);
  // Ignored: without huge pages it is slower to pin.
  (void)madvise(made.get(), bytes, MADV_HUGEPAGE);
  return made;
}

struct GpuRig::Running {
  CopyDirection direction{};
  std::span<const RigBatch> batches;
  size_t submitted = 0;
  size_t ended = 0;
  bool done() const { return ended == batches.size(); }
};

absl::Status GpuRig::OpenDeviceOf(const std::string& name) {
#ifdef KVTIER_HAVE_CUDA
  CudaOptions options{.kernels = true};
  absl::string_view ordinal = name;
  if (absl::ConsumePrefix(&ordinal, "cuda:") && absl::SimpleAtoi(ordinal, &options.ordinal)) {
    // Tells what is missing, before anything aborts for want of it.
    KVT_RETURN_IF_ERROR(OpenCudaDevice(options, &clock_).status());
    ordinal_ = options.ordinal;
    UseGpu(ordinal_);
    stream_ = std::make_shared<GpuStream>();
    options.compute_stream = stream_->handle();
    KVT_ASSIGN_OR_RETURN(device_, OpenCudaDevice(options, &clock_));
    return absl::OkStatus();
  }
#endif
  KVT_ASSIGN_OR_RETURN(device_, OpenDevice(name, &clock_, {.kernels = true}));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<GpuRig>> GpuRig::Open(const std::string& name, uint64_t bytes) {
  auto rig = absl::WrapUnique(new GpuRig());
  KVT_RETURN_IF_ERROR(rig->OpenDeviceOf(name));
  rig->bytes_ = bytes;
  rig->source_ = MakeHostBytes(bytes);
  rig->back_ = MakeHostBytes(bytes);
  std::mt19937_64 random(1);
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = random();
    std::memcpy(rig->source() + at, &word, sizeof(word));
  }
  std::memset(rig->back(), 0, bytes);
  const uint64_t handle = (2 * bytes + kRegionGranularity - 1) / kRegionGranularity;
  // Twice the bytes, so that segments can lie apart.
  KVT_ASSIGN_OR_RETURN(
      rig->region_, rig->device_->CreateRegion({.handle_bytes = handle * kRegionGranularity}, 1));
  KVT_RETURN_IF_ERROR(rig->device_->Pin({rig->source(), bytes}));
  KVT_RETURN_IF_ERROR(rig->device_->Pin({rig->back(), bytes}));
  return rig;
}

GpuRig::~GpuRig() {
  region_.reset();
  device_.reset();
}

void GpuRig::Push(Running* lane) {
  while (lane->submitted < lane->batches.size()) {
    const RigBatch& batch = lane->batches[lane->submitted];
    KVT_CHECK(AsPlanned(batch.segments));
    const absl::StatusOr<Ticket> ticket = device_->Submit({.direction = lane->direction,
                                                           .path = batch.path,
                                                           .region = region_.get(),
                                                           .segments = batch.segments});
    if (absl::IsResourceExhausted(ticket.status())) return;
    KVT_CHECK(ticket.ok());
    ++lane->submitted;
  }
}

double GpuRig::Run(CopyDirection direction, std::span<const RigBatch> batches, size_t first,
                   double* first_end) {
  Running lane = {.direction = direction, .batches = batches};
  std::array<Completion, 16> ended;
  const absl::Time start = absl::Now();
  while (!lane.done()) {
    Push(&lane);
    const size_t count = device_->Poll(ended);
    for (size_t i = 0; i < count; ++i) KVT_CHECK(ended[i].status.ok());
    const bool was_before = lane.ended < first;
    lane.ended += count;
    if (first_end != nullptr && was_before && lane.ended >= first) *first_end = SecondsSince(start);
  }
  return SecondsSince(start);
}

double GpuRig::RunBoth(std::span<const RigBatch> in, std::span<const RigBatch> out) {
  Running onboard = {.direction = CopyDirection::kHostToDevice, .batches = in};
  Running offload = {.direction = CopyDirection::kDeviceToHost, .batches = out};
  std::array<Completion, 16> ended;
  const absl::Time start = absl::Now();
  while (!onboard.done() || !offload.done()) {
    Push(&onboard);
    Push(&offload);
    const size_t count = device_->Poll(ended);
    for (size_t i = 0; i < count; ++i) {
      KVT_CHECK(ended[i].status.ok());
      ++(ended[i].ticket.lane == Lane::kOnboard ? onboard : offload).ended;
    }
  }
  return SecondsSince(start);
}

CopyWay GpuRig::ByBatches(std::span<const RigBatch> in, std::span<const RigBatch> out) {
  return {[this, in] { return Run(CopyDirection::kHostToDevice, in); },
          [this, out] { return Run(CopyDirection::kDeviceToHost, out); }};
}

void GpuRig::PoisonDevice(std::span<const CopySegment> segments) {
  uint64_t begin = region_->bytes();
  uint64_t end = 0;
  for (const CopySegment& segment : segments) {
    begin = std::min(begin, segment.device_offset);
    end = std::max(end, segment.device_offset + segment.bytes);
  }
  std::byte* const device = region_->address() + begin;
#ifdef KVTIER_HAVE_CUDA
  if (!emulated()) {
    stream_->Fill(device, kPoisonOnDevice, end - begin);
    stream_->Wait();
    return;
  }
#endif
  std::memset(device, kPoisonOnDevice, end - begin);
}

void GpuRig::Prove(std::span<const CopySegment> in, std::span<const CopySegment> out,
                   const CopyWay& way) {
  PoisonDevice(in);
  for (const CopySegment& segment : out) std::memset(segment.host, kPoisonOnHost, segment.bytes);
  way.in();
  way.out();
  for (const CopySegment& segment : out) {
    const std::byte* const sent = source_.get() + (segment.host - back_.get());
    KVT_CHECK(std::memcmp(segment.host, sent, segment.bytes) == 0);
  }
}

}  // namespace kvtier::bench
