#include "tier_gpu/device/cuda_staging.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "core/status_macros.h"
#include "tier_gpu/device/staging_plan.h"

namespace kvtier {
namespace {

CudaCommand Record(cudaEvent_t event, cudaStream_t stream) {
  return [event, stream] { return CudaStatus("cudaEventRecord", cudaEventRecord(event, stream)); };
}

// Waits for nothing if the event was never recorded.
CudaCommand WaitFor(cudaEvent_t event, cudaStream_t stream) {
  return [event, stream] {
    return CudaStatus("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, 0));
  };
}

absl::Status CreateEvent(cudaEvent_t* event) {
  return CudaStatus("cudaEventCreateWithFlags",
                    cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStaging>> CudaStaging::Open(const Options& options) {
  auto staging = absl::WrapUnique(new CudaStaging(options));
  KVT_RETURN_IF_ERROR(staging->Allocate());
  KVT_RETURN_IF_ERROR(staging->LoadKernel());
  return staging;
}

absl::Status CudaStaging::Allocate() {
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaStreamCreateWithPriority",
                 cudaStreamCreateWithPriority(&ahead_, cudaStreamNonBlocking, options_.priority)));
  KVT_RETURN_IF_ERROR(CreateEvent(&awaited_));
  void* memory = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaMalloc", cudaMalloc(&memory, kStagingBuffers * kStagingBufferBytes)));
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < kStagingBuffers; ++i) {
    buffers_[i].memory = memory_ + i * kStagingBufferBytes;
    KVT_RETURN_IF_ERROR(CreateEvent(&buffers_[i].filled));
    KVT_RETURN_IF_ERROR(CreateEvent(&buffers_[i].emptied));
  }
  void* lists = nullptr;
  KVT_RETURN_IF_ERROR(CudaStatus(
      "cudaHostAlloc",
      cudaHostAlloc(&lists, kMaxLaneDepth * kMaxStagedPieces * sizeof(kernels::StridedSegment),
                    cudaHostAllocPortable | cudaHostAllocMapped)));
  lists_ = static_cast<kernels::StridedSegment*>(lists);
  void* on_device = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&on_device, lists_, 0)));
  lists_on_device_ = static_cast<kernels::StridedSegment*>(on_device);
  return absl::OkStatus();
}

absl::Status CudaStaging::LoadKernel() {
  *list(0) = {.runs = 0};
  KVT_RETURN_IF_ERROR(Launch({list(0), 1}, ahead_)());
  return CudaStatus("cudaStreamSynchronize", cudaStreamSynchronize(ahead_));
}

// Ignored: they fail when the device is lost, and then all is gone already.
CudaStaging::~CudaStaging() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.filled != nullptr) (void)cudaEventDestroy(buffer.filled);
    if (buffer.emptied != nullptr) (void)cudaEventDestroy(buffer.emptied);
  }
  if (awaited_ != nullptr) (void)cudaEventDestroy(awaited_);
  if (ahead_ != nullptr) (void)cudaStreamDestroy(ahead_);
  if (memory_ != nullptr) (void)cudaFree(memory_);
  if (lists_ != nullptr) (void)cudaFreeHost(lists_);
  (void)cudaGetLastError();
}

bool CudaStaging::Quiet() const {
  const cudaError_t error = cudaStreamQuery(ahead_);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error != cudaErrorNotReady;
}

kernels::StridedSegment* CudaStaging::list(size_t place) const {
  return lists_ + place * kMaxStagedPieces;
}

CudaCommand CudaStaging::Launch(Segments segments, cudaStream_t stream) const {
  const kernels::CopySegmentsLaunch launch = {
      .segments = lists_on_device_ + (segments.data() - lists_),
      .count = static_cast<uint32_t>(segments.size()),
      .thread_blocks = kCopyThreadBlocks,
      .stream = stream};
  return [launch] {
    // A launch is told by the thread's last error: not by that of somebody else before.
    (void)cudaGetLastError();
    return CudaStatus("the copying kernel",
                      static_cast<cudaError_t>(kernels::CopySegmentsOnDevice(launch)));
  };
}

CudaCommand CudaStaging::Fence() { return Record(awaited_, options_.lane); }

std::vector<CudaCommand> CudaStaging::Direct(const CopyBatch& batch, const CudaHostMemory& host,
                                             size_t place) {
  std::vector<CudaCommand> commands;
  if (batch.segments.empty()) return commands;
  kernels::StridedSegment* next = list(place);
  for (const CopySegment& segment : batch.segments) {
    std::byte* const far = host.DeviceAddress(segment.host);
    std::byte* const near = batch.region->address() + segment.device_offset;
    const bool onboard = batch.direction == CopyDirection::kHostToDevice;
    *next++ = {.source = onboard ? far : near,
               .destination = onboard ? near : far,
               .run_bytes = segment.bytes};
  }
  commands.push_back(Launch({list(place), next}, options_.lane));
  return commands;
}

absl::StatusOr<std::vector<CudaCommand>> CudaStaging::Staged(const CopyBatch& batch,
                                                             const CudaHostMemory& host,
                                                             size_t place) {
  const auto joins = [&host](const std::byte* border) { return host.Check({border - 1, 2}).ok(); };
  KVT_ASSIGN_OR_RETURN(const std::vector<StagedPortion> portions,
                       PlanStaging(batch.segments, joins));
  const bool onboard = batch.direction == CopyDirection::kHostToDevice;
  const CudaCopies::Options copying = {.calls = options_.calls,
                                       .early_source = onboard && batch.early_source};
  std::vector<CudaCommand> commands;
  if (!copying.early_source) commands.push_back(WaitFor(awaited_, ahead_));
  kernels::StridedSegment* next = list(place);
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
    const auto move_pieces = [&](cudaStream_t stream) {
      commands.push_back(Launch({first, next}, stream));
    };
    const auto move_runs = [&](cudaStream_t stream) {
      std::move(copies).AppendTo(&commands, stream, copying);
    };
    commands.push_back(WaitFor(buffer.emptied, ahead_));
    onboard ? move_runs(ahead_) : move_pieces(ahead_);
    commands.push_back(Record(buffer.filled, ahead_));
    commands.push_back(WaitFor(buffer.filled, options_.lane));
    onboard ? move_pieces(options_.lane) : move_runs(options_.lane);
    commands.push_back(Record(buffer.emptied, options_.lane));
  }
  return commands;
}

}  // namespace kvtier
