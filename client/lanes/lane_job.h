// LaneJob is one offload or onboard on its way: what its caller polls or waits for.
//
// Until done(), the slots of the job are the lane's. Of an onboard they hold the blocks
// only when status() is OK: the lanes look at the lease once more after the last byte,
// and a lease that ended meanwhile makes everything void that was copied, and everything
// that was computed on it.
//
// A layer-wise onboard may be read from before it is done, layer by layer:
//   1. when layers_ready() > n, or behind mark(n + 1) on the device, layer n of the first
//      coming() blocks may be read by attention. On a GPU, compute is made to wait for
//      mark(n) only when layers_submitted() >= n: a wait for a write that is not in the lane
//      yet waits for the lanes' thread, and that thread may wait for a call of the engine's
//      which waits for all that the GPU runs (a kernel that is loaded, cudaFree);
//   2. nothing that came out of it may leave the worker (a token, an Offload, a slot that
//      another request shares) before the job is done;
//   3. done and not OK: throw the results away and recompute. The marks are raised then,
//      so that no compute waits for ever; layers_ready() is not.
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

// Compute waits until the word is `value` or more.
struct LayerMark {
  SignalWord* word = nullptr;
  uint64_t value = 0;
};

// Thread-safe.
class LaneJob {
 public:
  // `progress` is there for a layer-wise onboard of so many layers.
  LaneJob(std::optional<ProgressWord> progress, uint32_t layers);
  LaneJob(const LaneJob&) = delete;
  LaneJob& operator=(const LaneJob&) = delete;

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for it, `timeout` at most; done().
  bool Wait(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);
  // REQUIRES of both: done(). OK: blocks() were copied; of an offload, published; of an
  // onboard, they are the leading ones, none being a miss. Not OK, none: kAborted, the
  // lease, the grant or the session ended meanwhile, or the writer of the mark is gone;
  // kDeadlineExceeded, the mark was not reached in time; kResourceExhausted, too much is
  // queued (retry later); kUnavailable, the device failed or is lost; kDataLoss, a block is
  // no encoding of its space; kInvalidArgument, the device has no kernels to encode with.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t blocks() const ABSL_LOCKS_EXCLUDED(mu_);

  // How many blocks are being copied; nullopt: not known yet.
  std::optional<size_t> coming() const ABSL_LOCKS_EXCLUDED(mu_);
  // So many layers, from the first on, are there for all coming() blocks. Only ever more.
  // Always 0 if the job is not a layer-wise onboard.
  uint32_t layers_ready() const ABSL_LOCKS_EXCLUDED(mu_);
  // The marks of so many layers, from the first on, are in the lane: what waits for them
  // waits for the device alone. Only ever more; all of them when the job is done, which
  // raises its marks. Always 0 if the job is not a layer-wise onboard.
  uint32_t layers_submitted() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until there are `layers`, `timeout` at most; whether there are.
  bool WaitSubmitted(uint32_t layers, absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);
  // Reached when `layers` layers are there, or the job has ended otherwise. Lives as long
  // as the job's last holder. REQUIRES: the job is a layer-wise onboard, of as many layers
  // or more.
  LayerMark mark(uint32_t layers) const;

  // For the lanes: the copies begin; the mark of so many layers is submitted; all has ended.
  void Begin(size_t coming) ABSL_LOCKS_EXCLUDED(mu_);
  void Submitted(uint32_t layers) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status, size_t blocks) ABSL_LOCKS_EXCLUDED(mu_);
  const std::optional<ProgressWord>& progress() const { return progress_; }
  uint32_t layers() const { return layers_; }

 private:
  // What the word says; only before End().
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
