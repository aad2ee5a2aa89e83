// HostQueue holds the jobs of one HostLanes, or DeviceLanes, from their start to their end: jobs
// that wait for the agent, jobs whose blocks can be copied, in the order in which threads take
// them, and the blocks that offloads still read. Blocks whose slots are asked back are read first.
//
// No copy, RPC or callback runs under the queue's lock, so no caller waits for a copy.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_QUEUE_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/host_lanes/host_job.h"
#include "client/host_lanes/host_scratch.h"

namespace kvtier {

// Maximum number of running jobs in each direction.
inline constexpr size_t kMaxHostJobs = 256;

// Status text of an offload some of whose blocks were given up.
inline constexpr char kAskedBackText[] = "lanes: slots were asked back before they were copied";

// Counts of what lanes copied in one direction since they were opened.
struct HostCopyStats {
  uint64_t blocks = 0;  // Number copied, including those that then failed.
  uint64_t bytes = 0;   // Bytes of these blocks in the engine's memory.
  // Number of blocks that were copied in vain: damaged, of a lease or reservation that ended, or
  // not made smaller by the space's codec.
  uint64_t failed_blocks = 0;
  // Number of blocks of offloads whose slots were asked back before they were copied.
  uint64_t given_up_blocks = 0;
  absl::Duration copying;  // Time spent in copies, by all threads or jobs together.
};

// HostCopy is the blocks of one job, which the lanes' threads copy one at a time.
class HostCopy {
 public:
  explicit HostCopy(std::shared_ptr<HostJob> job) : job_(std::move(job)) {}
  virtual ~HostCopy() = default;

  const std::shared_ptr<HostJob>& job() const { return job_; }
  // Copies the next block and returns its bytes in the engine's memory; 0: there was none left.
  virtual uint64_t CopyNext(HostScratch* scratch) = 0;
  // Completes the job's part after the last copy. REQUIRES: CopyNext() returned 0.
  virtual void Finish() = 0;

 private:
  const std::shared_ptr<HostJob> job_;
};

// HostQueue orders the copies. Thread-safe.
class HostQueue {
 public:
  explicit HostQueue(uint32_t slots) : readers_(slots) {}
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  // Adds a job; an offload reads its slots from now on. Errors: kResourceExhausted, there are
  // kMaxHostJobs of its direction; kFailedPrecondition, it is closed.
  absl::Status Admit(const std::shared_ptr<HostJob>& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Queues a job whose blocks can be copied. Drops the copy of a job that has ended, or if the
  // queue is closed.
  void Add(std::unique_ptr<HostCopy> copy) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for a copy whose job has not ended, and takes it: first offloads some of whose slots are
  // asked back, then onboards, then other offloads. Null: the queue is closed.
  std::unique_ptr<HostCopy> Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that a block of `bytes` was copied, and queues the rest as the next of its direction.
  void PutBack(std::unique_ptr<HostCopy> copy, uint64_t bytes, absl::Duration took)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Counts blocks, of `bytes` together, that were copied without PutBack().
  void Count(HostDirection direction, uint64_t blocks, uint64_t bytes, absl::Duration took)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that the offload does not read these blocks, which are places in the order of its keys.
  void SkipBlocks(const std::shared_ptr<HostJob>& job, std::span<const size_t> blocks)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the block that the offload reads now; one whose slot is asked back comes first.
  // Nullopt: none is left. REQUIRES: EndBlock() is called before the next BeginBlock().
  std::optional<size_t> BeginBlock(const std::shared_ptr<HostJob>& job) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that the block was read; its slot may be overwritten.
  void EndBlock(const std::shared_ptr<HostJob>& job, size_t block) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that the offload reads no more. Returns its blocks that were given up, which must not be
  // published. Nullopt: the job has ended, and nothing of it may be published.
  std::optional<std::vector<size_t>> EndReading(const std::shared_ptr<HostJob>& job)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the job; `failed` of its blocks were copied in vain. Its place is free when its waiters
  // see the end. A job that has ended is not changed.
  void End(const std::shared_ptr<HostJob>& job, const absl::Status& status,
           std::vector<bool> results, uint64_t failed) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until no offload reads one of `slots`, at most `timeout`; their blocks are copied ahead
  // of all others. False: some are still read, and these blocks are given up; a job that gave up
  // all its blocks has ended. REQUIRES: they are valid slots.
  bool AwaitCopied(std::span<const uint32_t> slots, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mu_);
  HostCopyStats StatsOf(HostDirection direction) const ABSL_LOCKS_EXCLUDED(mu_);

  // Makes Take() return null from now on.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all jobs as kCancelled. REQUIRES: it is closed, and no thread copies.
  void CancelAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Blocks that one offload still reads.
  struct Reading {
    enum class Block : uint8_t { kWaits, kIsRead, kLeft, kGivenUp };
    std::vector<Block> blocks;  // State of each block, in the order of the keys.
    size_t next = 0;            // No block before this one waits.
    // Blocks to be read first, the last one first; some may have been read.
    std::vector<size_t> wanted;
  };

  void AddCopied(HostDirection direction, uint64_t blocks, uint64_t bytes, absl::Duration took)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsAdmitted(const std::shared_ptr<HostJob>& job) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool IsRead(std::span<const uint32_t> slots) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Drops wanted blocks that do not wait any more. Returns whether one is left.
  static bool HasWanted(Reading* reading);
  // Takes the next copy. REQUIRES: there is one.
  std::unique_ptr<HostCopy> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes blocks whose slots are `asked` be read first.
  void ReadFirst(const std::vector<bool>& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives up the blocks that still read a slot that is `asked`.
  void GiveUpBlocks(const std::vector<bool>& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes that the block is not read any more, or never was: its state is now `after`.
  void Leave(const HostJob& job, Reading* reading, size_t block, Reading::Block after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StopReading(const std::shared_ptr<HostJob>& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends what is left of the job, without results.
  void EndWithoutResults(const std::shared_ptr<HostJob>& job, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  template <typename T>
  using PerDirection = std::array<T, kHostDirections>;
  using Jobs = std::set<std::shared_ptr<HostJob>>;
  static size_t IndexOf(const HostJob& job) { return static_cast<size_t>(job.direction()); }

  mutable absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  PerDirection<Jobs> jobs_ ABSL_GUARDED_BY(mu_);
  // Offloads that read their slots.
  std::map<std::shared_ptr<HostJob>, Reading> reading_ ABSL_GUARDED_BY(mu_);
  // Number of blocks of offloads that read each slot.
  std::vector<uint32_t> readers_ ABSL_GUARDED_BY(mu_);
  size_t asking_ ABSL_GUARDED_BY(mu_) = 0;  // Number of callers that wait in AwaitCopied().
  PerDirection<std::deque<std::unique_ptr<HostCopy>>> copies_ ABSL_GUARDED_BY(mu_);
  PerDirection<HostCopyStats> stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_QUEUE_H_
