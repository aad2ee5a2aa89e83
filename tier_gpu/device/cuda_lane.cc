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

// Ignores errors: these calls fail when the device is lost, and then everything is gone already.
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
  KVT_CHECK(kind == Kind::kCopy || !commands.empty());
  if (idle()) last_change_ = now;
  if (kind == Kind::kCopy) {
    KVT_CHECK(!options_.stream);
    const Span& span = spans_[next_place()];
    const auto record = [this](cudaEvent_t event) {
      return CudaCommand{CudaCommand::Where::kLane, [this, event] {
                           return CudaStatus("cudaEventRecord", cudaEventRecord(event, stream_));
                         }};
    };
    commands.insert(commands.begin(), record(span.begin));
    commands.push_back(record(span.end));
  }
  operations_.push_back({.kind = kind,
                         .submitted = now,
                         .commands = std::move(commands),
                         .known_failures = taken_failures_});
  return {.lane = options_.lane, .sequence = ++submitted_};
}

absl::Status CudaLane::Feed() {
  for (; fed_operations_ < operations_.size(); ++fed_operations_) {
    Operation& operation = operations_[fed_operations_];
    if (operation.kind == Kind::kSignal && operation.known_failures != failures_) {
      KVT_RETURN_IF_ERROR(Fail(
          &operation,
          absl::UnavailableError("nothing was signalled, because an operation before it failed")));
    }
    while (operation.fed < operation.commands.size()) {
      if (!HasRoom()) return absl::OkStatus();
      KVT_RETURN_IF_ERROR(Put(&operation));
    }
    operation.end_mark = last_mark_;
    operation.commands.clear();
  }
  return absl::OkStatus();
}

absl::Status CudaLane::Put(Operation* operation) {
  const CudaCommand& command = operation->commands[operation->fed];
  if (const absl::Status put = command.put(); !put.ok()) {
    KVT_RETURN_IF_ERROR(Failure());
    // A wait for a word, or a write of one, cannot be skipped: other operations rely on the order.
    return operation->kind == Kind::kCopy ? Fail(operation, put) : put;
  }
  ++operation->fed;
  entries_ += command.entries;
  unmarked_ += command.entries;
  // A mark in the lane's stream does not cover entries that were put ahead since the lane last
  // waited.
  if (command.where == CudaCommand::Where::kAhead) return absl::OkStatus();
  const bool all = operation->fed == operation->commands.size();
  return all || unmarked_ >= kMarkedEntries ? AddMark() : absl::OkStatus();
}

absl::Status CudaLane::Fail(Operation* operation, const absl::Status& status) {
  // The mark must also cover entries in the stream ahead for which the lane has not waited yet.
  if (operation->kind == Kind::kCopy && ahead_ != nullptr) {
    KVT_RETURN_IF_ERROR(CudaStatus("cudaEventRecord", cudaEventRecord(joined_, ahead_)));
    KVT_RETURN_IF_ERROR(
        CudaStatus("cudaStreamWaitEvent", cudaStreamWaitEvent(stream_, joined_, 0)));
    entries_ += 2;
    unmarked_ += 2;
  }
  operation->fed = operation->commands.size();
  operation->status = absl::UnavailableError(status.message());
  ++failures_;
  return AddMark();
}

bool CudaLane::HasRoom() const {
  const Operation& operation = operations_[fed_operations_];
  const size_t entries = operation.commands[operation.fed].entries;
  KVT_CHECK(entries <= kMaxCommandEntries);
  const bool room = entries_ + entries <= kMaxStreamEntries;
  KVT_CHECK(room || !marks_.empty());  // kMaxEntriesAhead ensures it.
  return room;
}

absl::Status CudaLane::AddMark() {
  // The default flags make what the stream wrote before visible to a reader of the word.
  KVT_RETURN_IF_ERROR(driver_.Status(
      "cuStreamWriteValue64", driver_.write_word(stream_, options_.word_on_device, ++last_mark_,
                                                 CU_STREAM_WRITE_VALUE_DEFAULT)));
  ++entries_;
  marks_.push_back({.number = last_mark_, .entries = unmarked_ + 1});
  unmarked_ = 0;
  return absl::OkStatus();
}

bool CudaLane::HasWork() const {
  if (idle()) return false;
  if (fed_operations_ < operations_.size() && HasRoom()) return true;
  // Relaxed, because this load only compares; the load in Observe() acquires.
  return options_.word->load(std::memory_order_relaxed) > seen_mark_;
}

void CudaLane::Observe(absl::Time now) {
  // Pairs with the device's write at the end of the operation.
  seen_mark_ = options_.word->load(std::memory_order_acquire);
  while (!operations_.empty() && operations_.front().end_mark <= seen_mark_) {
    End(now, operations_.front().status);
  }
  while (!marks_.empty() && marks_.front().number <= seen_mark_) {
    entries_ -= marks_.front().entries;
    marks_.pop_front();
    last_change_ = now;
  }
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

void CudaLane::End(absl::Time now, absl::Status status) {
  const Operation& operation = operations_.front();
  const absl::Duration device = status.ok() ? TimeOf(operation, now) : absl::ZeroDuration();
  if (fed_operations_ > 0) --fed_operations_;
  operations_.pop_front();
  last_change_ = now;
  ended_.push_back({.ticket = {.lane = options_.lane, .sequence = ++done_},
                    .status = std::move(status),
                    .device = device});
}

bool CudaLane::TakeEnded(Completion* completion) {
  if (ended_.empty()) return false;
  *completion = std::move(ended_.front());
  ended_.pop_front();
  if (!completion->status.ok()) ++taken_failures_;
  return true;
}

absl::Duration CudaLane::TimeSinceChange(absl::Time now) const {
  return idle() ? absl::ZeroDuration() : now - last_change_;
}

bool CudaLane::Quiet() const {
  if (options_.stream) return options_.word->load(std::memory_order_acquire) >= last_mark_;
  return stream_ == nullptr || IsQuiet(stream_);
}

absl::Status CudaLane::Failure() const {
  const cudaError_t error = cudaStreamQuery(options_.stream ? options_.asked : stream_);
  // Clears "not ready" too; otherwise the next launch would report it.
  const absl::Status status = CudaStatus("cudaStreamQuery", error);
  return error == cudaErrorNotReady || IsOfCapture(error) ? absl::OkStatus() : status;
}

void CudaLane::Abandon(absl::Time now, const absl::Status& status) {
  while (!operations_.empty()) End(now, status);
}

}  // namespace kvtier
