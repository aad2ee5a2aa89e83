#include "tier_gpu/device/cuda_lane.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Open(const CudaDriver& driver,
                                                         const Options& options) {
  auto lane = absl::WrapUnique(new CudaLane(driver, options));
  if (!options.stream) KVT_RETURN_IF_ERROR(lane->CreateStream());
  return lane;
}

absl::Status CudaLane::CreateStream() {
  KVT_RETURN_IF_ERROR(
      CudaStatus("cudaStreamCreateWithPriority",
                 cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, options_.priority)));
  for (Span& span : spans_) {
    KVT_RETURN_IF_ERROR(CudaStatus("cudaEventCreate", cudaEventCreate(&span.begin)));
    KVT_RETURN_IF_ERROR(CudaStatus("cudaEventCreate", cudaEventCreate(&span.end)));
  }
  return absl::OkStatus();
}

// Ignored: they fail when the device is lost, and then all is gone already.
CudaLane::~CudaLane() {
  for (const Span& span : spans_) {
    if (span.begin != nullptr) (void)cudaEventDestroy(span.begin);
    if (span.end != nullptr) (void)cudaEventDestroy(span.end);
  }
  if (!options_.stream && stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

Ticket CudaLane::Add(Kind kind, std::vector<CudaCommand> commands, absl::Time now) {
  KVT_CHECK(!full());
  if (idle()) last_change_ = now;
  if (kind == Kind::kCopy) {
    KVT_CHECK(!options_.stream);
    const Span& span = spans_[next_place()];
    const auto record = [this](cudaEvent_t event) {
      return CudaStatus("cudaEventRecord", cudaEventRecord(event, stream_));
    };
    commands.insert(commands.begin(), [record, event = span.begin] { return record(event); });
    commands.emplace_back([record, event = span.end] { return record(event); });
  }
  const uint64_t sequence = ++submitted_;
  // Its default flags make what the stream wrote before visible to who sees the word.
  commands.emplace_back([this, sequence] {
    return driver_.Status("cuStreamWriteValue64",
                          driver_.write_word(stream_, options_.word_on_device, sequence,
                                             CU_STREAM_WRITE_VALUE_DEFAULT));
  });
  operations_.push_back({.kind = kind, .submitted = now, .commands = std::move(commands)});
  return {.lane = options_.lane, .sequence = sequence};
}

absl::Status CudaLane::Feed() {
  for (; fed_operations_ < operations_.size(); ++fed_operations_) {
    Operation& operation = operations_[fed_operations_];
    while (operation.fed < operation.commands.size()) {
      if (entries_ >= kMaxStreamEntries) return absl::OkStatus();
      KVT_RETURN_IF_ERROR(operation.commands[operation.fed]());
      ++operation.fed;
      ++entries_;
    }
    operation.commands.clear();
  }
  return absl::OkStatus();
}

bool CudaLane::HasNews() const {
  if (idle()) return false;
  if (fed_operations_ < operations_.size() && entries_ < kMaxStreamEntries) return true;
  // Looks only: Observe() acquires.
  return options_.word->load(std::memory_order_relaxed) > done_;
}

void CudaLane::Observe(absl::Time now) {
  // Pairs with the device's write at the end of the operation.
  const uint64_t word = options_.word->load(std::memory_order_acquire);
  while (done_ < word && !operations_.empty()) End(now, absl::OkStatus());
}

absl::Duration CudaLane::TimeOf(const Operation& operation, absl::Time now) const {
  if (operation.kind == Kind::kCopy) {
    const Span& span = spans_[done_ % kMaxLaneDepth];
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, span.begin, span.end) == cudaSuccess) {
      return absl::Milliseconds(milliseconds);
    }
    (void)cudaGetLastError();
  }
  return std::max(absl::ZeroDuration(), now - std::max(operation.submitted, last_change_));
}

void CudaLane::End(absl::Time now, const absl::Status& status) {
  const Operation& operation = operations_.front();
  const absl::Duration device = status.ok() ? TimeOf(operation, now) : absl::ZeroDuration();
  entries_ -= operation.fed;
  if (fed_operations_ > 0) --fed_operations_;
  operations_.pop_front();
  last_change_ = now;
  ended_.push_back(
      {.ticket = {.lane = options_.lane, .sequence = ++done_}, .status = status, .device = device});
}

bool CudaLane::TakeEnded(Completion* completion) {
  if (ended_.empty()) return false;
  *completion = std::move(ended_.front());
  ended_.pop_front();
  return true;
}

absl::Duration CudaLane::Silence(absl::Time now) const {
  return idle() ? absl::ZeroDuration() : now - last_change_;
}

bool CudaLane::Quiet() const {
  if (options_.stream || stream_ == nullptr) return true;
  const cudaError_t error = cudaStreamQuery(stream_);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error != cudaErrorNotReady;
}

void CudaLane::Abandon(absl::Time now, const absl::Status& status) {
  while (!operations_.empty()) End(now, status);
}

}  // namespace kvtier
