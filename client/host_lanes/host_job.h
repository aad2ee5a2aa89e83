// HostJob is one offload or onboard of HostLanes, or of DeviceLanes, on its way: what its caller
// polls or waits for.
//
// Until done(), the slots of an onboard are the lanes' to write. The slots of an offload may be
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

// Thread-safe.
class HostJob {
 public:
  HostJob(HostDirection direction, std::vector<uint32_t> slots)
      : direction_(direction), slots_(std::move(slots)) {}
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  HostDirection direction() const { return direction_; }
  const std::vector<uint32_t>& slots() const { return slots_; }  // In the order of the keys.

  // Both stay true. copied(): the slots are not read, or written, by the lanes any more.
  bool done() const ABSL_LOCKS_EXCLUDED(mu_);
  bool copied() const ABSL_LOCKS_EXCLUDED(mu_);
  // The event that DeviceLanes::Onboard() was given is recorded behind the copies: what waits for
  // it from now on waits for them. Never true where none was given, or the job failed before.
  bool recorded() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the job is done, `timeout` at most; returns done().
  bool Wait(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);

  // REQUIRES of both: done(). The results are there whatever the status says, by the order of the
  // keys. Of an offload, true: the block is in host memory, stored by this job or before; false:
  // there was no room, another worker is putting it, the space's codec does not make it smaller,
  // its slot was asked back before it was copied, or the job failed. Of an onboard, true: the slot
  // holds the block, proven (with a codec: what the codec makes of the proven encoding); false: the
  // block was missing, or what came is not the block. Then the slot's bytes are void; of HostLanes
  // in a space with a codec they are as they were, because nothing is written before the encoding
  // is proven and decoded.
  std::vector<bool> results() const ABSL_LOCKS_EXCLUDED(mu_);
  // OK: the job did what could be done; a miss, a lack of room and a block that the codec does not
  // make smaller are no errors. Otherwise it says
  // why blocks failed that could have come: kUnavailable, no agent answered, or the process was
  // forked; kAborted, the lease, the reservation or the session ended meanwhile, or slots of an
  // offload were asked back; kDataLoss, bytes are not the block's; kResourceExhausted, too many
  // calls of the client were under way; kCancelled, the lanes are gone.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // For the lanes. The second end of a job changes nothing.
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
