// LaneJob is one offload or onboard in progress: its caller polls it or waits for it.
//
// Until done(), the slots of the job belong to the lane. After an onboard they hold the blocks only
// when status() is OK: the lanes check the lease once more after the last byte. If the lease ended
// meanwhile, everything that was copied is void, and everything that was computed from it.
//
// A layer-wise onboard may be read from before it is done, layer by layer:
// 1. When layers_ready() > n, or after mark(n + 1) on the device, attention may read layer n of the
//    first coming() blocks. On a GPU, make compute wait for mark(n) only when layers_submitted() >=
//    n: a wait for a write that is not yet in the lane depends on the lanes' thread, and that
//    thread may wait for a call of the engine that waits for everything that the GPU runs (loading
//    a kernel, cudaFree).
// 2. No result of it may leave the worker (a token, an Offload, a slot that another request shares)
//    before the job is done.
// 3. If it is done and not OK, drop the results and recompute. The marks are raised then, so that
//    no compute waits for ever; layers_ready() is not.
#ifndef KVTIER_CLIENT_LANES_LANE_JOB_H_
#define KVTIER_CLIENT_LANES_LANE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/lanes/progress_words.h"

namespace kvtier {

// Mark of a layer: compute waits until the word is `value` or more.
struct LayerMark {
  SignalWord* word = nullptr;
  uint64_t value = 0;
};

// LaneJob is the state of one job. Thread-safe.
class LaneJob {
 public:
  // Makes a job. `progress` is set for a layer-wise onboard of `layers` layers.
  LaneJob(std::optional<ProgressWord> progress, uint32_t layers);
  LaneJob(const LaneJob&) = delete;
  LaneJob& operator=(const LaneJob&) = delete;

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until it is done, at most `timeout`; returns done().
  bool Wait(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);
  // REQUIRES, for both: done(). OK: blocks() were copied; for an offload they were published, and
  // for an onboard they are the leading ones (none of them means a miss). Not OK, no blocks:
  // kAborted, the lease, the grant or the session ended meanwhile, or the writer of the mark is
  // gone; kDeadlineExceeded, the mark was not reached in time; kResourceExhausted, too much is
  // queued (retry later); kUnavailable, the device failed or is lost; kDataLoss, a block is no
  // encoding of its space; kInvalidArgument, the device has no kernels to encode with.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t blocks() const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns how many blocks are being copied; nullopt: not known yet.
  std::optional<size_t> coming() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns how many layers, from the first on, are there for all coming() blocks. Never falls.
  // Always 0 if the job is not a layer-wise onboard.
  uint32_t layers_ready() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns for how many layers, from the first on, the marks are in the lane, so that a wait for
  // them depends on the device alone. Never falls; all of them when the job is done, which raises
  // its marks. Always 0 if the job is not a layer-wise onboard.
  uint32_t layers_submitted() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until layers_submitted() is `layers` or more, at most `timeout`; returns whether it is.
  bool WaitSubmitted(uint32_t layers, absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the mark that is reached when `layers` layers are there, or the job has ended
  // otherwise. Valid as long as anything shares the job. REQUIRES: the job is a layer-wise onboard
  // of at least as many layers.
  LayerMark mark(uint32_t layers) const;

  // The lanes call Begin() when the copies begin, Submitted() when the marks of `layers` layers are
  // submitted, and End() when everything has ended.
  void Begin(size_t coming) ABSL_LOCKS_EXCLUDED(mu_);
  void Submitted(uint32_t layers) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status, size_t blocks) ABSL_LOCKS_EXCLUDED(mu_);
  const std::optional<ProgressWord>& progress() const { return progress_; }
  uint32_t layers() const { return layers_; }

 private:
  // Returns the layers that the word reports; only before End().
  uint32_t Told() const;

  const std::optional<ProgressWord> progress_;
  const uint32_t layers_;
  mutable absl::Mutex mu_;
  std::optional<size_t> coming_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mu_);
  size_t blocks_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t submitted_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t layers_at_end_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_LANE_JOB_H_
