#include "tier_gpu/device/cuda_staging.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "core/status_macros.h"
#include "tier_gpu/device/staging_plan.h"

namespace kvtier {

// Of an onboarding, ahead in a row: two waits, the copies of a portion, and the event.
static_assert(kMaxPortionRuns + 3 <= kMaxEntriesAhead);

absl::StatusOr<std::unique_ptr<CudaStaging>> CudaStaging::Open(const Options& options) {
  auto staging = absl::WrapUnique(new CudaStaging(options));
  KVT_RETURN_IF_ERROR(staging->Allocate());
  return staging;
}

absl::Status CudaStaging::Allocate() {
  KVT_RETURN_IF_ERROR(CudaStatus(
      "cudaStreamCreateWithPriority",
      cudaStreamCreateWithPriority(&streams_.ahead, cudaStreamNonBlocking, options_.priority)));
  KVT_RETURN_IF_ERROR(CreateEvent(&awaited_));
  KVT_RETURN_IF_ERROR(CreateEvent(&joined_));
  void* memory = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaMalloc", cudaMalloc(&memory, kStagingBuffers * kStagingBufferBytes)));
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < kStagingBuffers; ++i) {
    buffers_[i].memory = memory_ + i * kStagingBufferBytes;
    KVT_RETURN_IF_ERROR(CreateEvent(&buffers_[i].filled));
    KVT_RETURN_IF_ERROR(CreateEvent(&buffers_[i].emptied));
  }
  KVT_ASSIGN_OR_RETURN(lists_, CudaLists::Open(streams_.ahead));
  return absl::OkStatus();
}

// Ignored: they fail when the device is lost, and then all is gone already.
CudaStaging::~CudaStaging() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.filled != nullptr) (void)cudaEventDestroy(buffer.filled);
    if (buffer.emptied != nullptr) (void)cudaEventDestroy(buffer.emptied);
  }
  if (awaited_ != nullptr) (void)cudaEventDestroy(awaited_);
  if (joined_ != nullptr) (void)cudaEventDestroy(joined_);
  if (streams_.ahead != nullptr) (void)cudaStreamDestroy(streams_.ahead);
  if (memory_ != nullptr) (void)cudaFree(memory_);
  (void)cudaGetLastError();
}

absl::StatusOr<std::vector<CudaCommand>> CudaStaging::Staged(const CopyBatch& batch,
                                                             const CudaHostMemory& host,
                                                             size_t place) {
  const auto joins = [&host](const std::byte* border) { return host.Check({border - 1, 2}).ok(); };
  KVT_ASSIGN_OR_RETURN(const std::vector<StagedPortion> portions,
                       PlanStaging(batch.segments, joins));
  const bool onboard = batch.direction == CopyDirection::kHostToDevice;
  const auto where_runs = onboard ? kAhead : kInLane;
  const CudaCopies::Options copying = {
      .where = where_runs, .stream = streams_.of(where_runs), .calls = options_.calls};
  std::vector<CudaCommand> commands = {BehindFence()};
  kernels::StridedSegment* next = lists_->of(place);
  for (const StagedPortion& portion : portions) {
    const Buffer& buffer = buffers_[next_buffer_++ % kStagingBuffers];
    kernels::StridedSegment* const first = next;
    for (const StagedPiece& piece : portion.pieces) {
      std::byte* const there = batch.region->address() + piece.device_offset;
      std::byte* const staged = buffer.memory + piece.buffer_offset;
      *next++ = {.source = onboard ? staged : there,
                 .destination = onboard ? there : staged,
                 .run_bytes = piece.bytes};
    }
    CudaCopies copies;
    for (const StagedRun& run : portion.runs) {
      std::byte* const far = host.DeviceAddress(run.host);
      std::byte* const staged = buffer.memory + run.buffer_offset;
      copies.Add(onboard ? staged : far, onboard ? far : staged, run.bytes);
    }
    std::vector<CudaCommand> fill = {streams_.WaitFor(buffer.emptied, kAhead)};
    std::vector<CudaCommand> empty = {streams_.WaitFor(buffer.filled, kInLane)};
    std::move(copies).AppendTo(onboard ? &fill : &empty, copying);
    (onboard ? empty : fill).push_back(Launch({first, next}, onboard ? kInLane : kAhead));
    fill.push_back(streams_.Record(buffer.filled, kAhead));
    empty.push_back(streams_.Record(buffer.emptied, kInLane));
    std::ranges::move(fill, std::back_inserter(commands));
    std::ranges::move(empty, std::back_inserter(commands));
  }
  return commands;
}

}  // namespace kvtier
