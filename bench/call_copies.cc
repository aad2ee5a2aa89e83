#include "bench/call_copies.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/row_copies.h"

namespace kvtier::bench {

CallCopies::CallCopies(GpuRig* rig, GpuStream* stream, CopyDirection direction,
                       std::span<const CopySegment> segments)
    : stream_(stream), copies_(RowsOf(rig, direction, segments)) {}

void CallCopies::Start() {
  for (const RowCopy& copy : copies_) stream_->Copy(copy.destination, copy.source, copy.bytes);
}

double CallCopies::Run() {
  const absl::Time start = absl::Now();
  Start();
  stream_->Wait();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

double CallCopies::RunOnGpu() {
  stream_->Begin();
  Start();
  stream_->End();
  return stream_->Seconds();
}

}  // namespace kvtier::bench
