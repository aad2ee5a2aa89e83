#include "tier_gpu/device/cuda_lanes.h"

#include <algorithm>
#include <new>

#include "core/status_macros.h"

namespace kvtier {

absl::Status CudaLanes::Open() {
  KVT_RETURN_IF_ERROR(OpenWords());
  void* on_device = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&on_device, words_, 0)));
  // Engines wait for onboards and not for offloads, so kernels of onboards get the greatest
  // priority. The greatest has the lowest number.
  int least = 0;
  int greatest = 0;
  KVT_RETURN_IF_ERROR(CudaStatus("cudaDeviceGetStreamPriorityRange",
                                 cudaDeviceGetStreamPriorityRange(&least, &greatest)));
  for (const Lane lane : {Lane::kOnboard, Lane::kOffload, Lane::kCompute}) {
    const auto index = static_cast<size_t>(lane);
    CudaLane::Options options = {
        .lane = lane,
        .priority = lane == Lane::kOnboard ? greatest : least,
        .word = &words_[index].value,
        .word_on_device = reinterpret_cast<CUdeviceptr>(on_device) + index * sizeof(EndWord)};
    if (lane == Lane::kCompute) {
      options.stream = options_.compute_stream;
      options.asked = of(Lane::kOnboard).stream();
    }
    KVT_ASSIGN_OR_RETURN(lanes_[index], CudaLane::Open(driver_, options));
    if (lane == Lane::kCompute || !options_.kernels) continue;
    const auto direction =
        lane == Lane::kOnboard ? CopyDirection::kHostToDevice : CopyDirection::kDeviceToHost;
    KVT_ASSIGN_OR_RETURN(blocks_[index],
                         CudaBlocks::Open({.direction = direction,
                                           .lane = lanes_[index]->stream(),
                                           .priority = options.priority,
                                           .largest_block = options_.largest_block}));
    lanes_[index]->Join(blocks_[index]->streams().ahead, blocks_[index]->joined());
  }
  return absl::OkStatus();
}

absl::Status CudaLanes::OpenWords() {
  void* words = nullptr;
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaHostAlloc", cudaHostAlloc(&words, kLanes * sizeof(EndWord),
                                                cudaHostAllocPortable | cudaHostAllocMapped)));
  words_ = static_cast<EndWord*>(words);
  for (size_t i = 0; i < kLanes; ++i) new (&words_[i]) EndWord{.value = 0};
  return absl::OkStatus();
}

CudaLanes::~CudaLanes() {
  for (auto& blocks : blocks_) blocks.reset();
  for (auto& lane : lanes_) lane.reset();
  if (words_ != nullptr) (void)cudaFreeHost(words_);
  (void)cudaGetLastError();
}

bool CudaLanes::HasWork() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->HasWork(); });
}

void CudaLanes::Observe(absl::Time now) {
  for (const auto& lane : lanes_) lane->Observe(now);
}

absl::Status CudaLanes::Feed() {
  for (const auto& lane : lanes_) KVT_RETURN_IF_ERROR(lane->Feed());
  return absl::OkStatus();
}

size_t CudaLanes::TakeEnded(std::span<Completion> ended) {
  size_t count = 0;
  for (const auto& lane : lanes_) {
    while (count < ended.size() && lane->TakeEnded(&ended[count])) ++count;
  }
  return count;
}

void CudaLanes::Abandon(absl::Time now, const absl::Status& status) {
  for (const auto& lane : lanes_) lane->Abandon(now, status);
}

bool CudaLanes::idle() const {
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->idle(); });
}

absl::Duration CudaLanes::LongestTimeSinceChange(absl::Time now) const {
  absl::Duration longest;
  for (const auto& lane : lanes_) longest = std::max(longest, lane->TimeSinceChange(now));
  return longest;
}

absl::Duration CudaLanes::ShortestTimeSinceChange(absl::Time now) const {
  absl::Duration shortest = absl::InfiniteDuration();
  for (const auto& lane : lanes_) {
    if (!lane->idle()) shortest = std::min(shortest, lane->TimeSinceChange(now));
  }
  return shortest;
}

bool CudaLanes::Quiet() const {
  // After an error that CUDA repeats for every call, nothing runs any more in any stream.
  const CudaLane* const first = lanes_.front().get();
  if (first != nullptr && !first->Failure().ok()) return true;
  return std::ranges::all_of(lanes_, [](const auto& lane) { return !lane || lane->Quiet(); }) &&
         std::ranges::all_of(blocks_, [](const auto& of) { return !of || of->Quiet(); });
}

absl::Status CudaLanes::Failure() const {
  return lanes_[static_cast<size_t>(Lane::kOnboard)]->Failure();
}

}  // namespace kvtier
