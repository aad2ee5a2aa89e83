// HostJob is one offload or onboard of HostLanes, or of DeviceLanes, in progress: its caller polls
// it or waits for it.
//
// Until done(), the lanes may write the slots of an onboard. The slots of an offload may be
// overwritten as soon as copied() is true, which is before done(), because publishing comes after.
//
// In a forked child every job has ended, failed, and no lock is touched.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_JOB_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_JOB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kvtier {

enum class HostDirection : uint8_t { kOffload = 0, kOnboard = 1 };
inline constexpr size_t kHostDirections = 2;

// HostJob is the state of one job. Thread-safe.
class HostJob {
 public:
  HostJob(HostDirection direction, std::vector<uint32_t> slots)
      : direction_(direction), slots_(std::move(slots)) {}
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  HostDirection direction() const { return direction_; }
  // Returns the slots in the order of the keys.
  const std::vector<uint32_t>& slots() const { return slots_; }

  // done() returns whether the job has ended, copied() whether the lanes do not read or write its
  // slots any more. Once true, both stay true.
  bool done() const ABSL_LOCKS_EXCLUDED(mu_);
  bool copied() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether the event given to DeviceLanes::Onboard() is recorded after the copies: a wait
  // for it from now on waits for them. Never true if none was given, or the job failed earlier.
  bool recorded() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the job is done, at most `timeout`; returns done().
  bool Wait(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);

  // REQUIRES, for both: done(). Returns the results, whatever the status says, in the order of the
  // keys. Offload, true: the block is in host memory, stored by this job or earlier. False: there
  // was no room, another worker is putting it, the space's codec does not make it smaller, its slot
  // was asked back before it was copied, or the job failed. Onboard, true: the slot holds the
  // block, proven (with a codec: the decoded form of the proven encoding). False: the block was
  // missing, or its bytes were wrong. The slot's bytes are then void; with HostLanes in a space
  // with a codec they are unchanged, because nothing is written before the encoding is proven and
  // decoded.
  std::vector<bool> results() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns OK if the job did what was possible; a miss, a lack of room and a block that the codec
  // does not make smaller are no errors. Otherwise says why blocks failed that were possible:
  // kUnavailable, no agent answered, or the process was forked; kAborted, the lease, the
  // reservation or the session ended meanwhile, or slots of an offload were asked back; kDataLoss,
  // bytes are not the block's; kResourceExhausted, too many calls of the client were running;
  // kCancelled, the lanes are gone.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // The lanes call MarkCopied() and the functions after it. A second end of a job changes nothing.
  void MarkCopied() ABSL_LOCKS_EXCLUDED(mu_);
  void MarkRecorded() ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status, std::vector<bool> results) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const HostDirection direction_;
  const std::vector<uint32_t> slots_;
  mutable absl::Mutex mu_;
  bool copied_ ABSL_GUARDED_BY(mu_) = false;
  bool recorded_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> results_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_JOB_H_
