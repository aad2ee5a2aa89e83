// HostLanes are lanes for an inference engine that computes on this processor. They copy blocks
// between the engine's KV tensors, in this process's memory, and the agent's host memory, on
// threads of their own. An offload stores blocks, an onboard copies them back; both are jobs that
// their caller polls.
//
// In a space with a codec, blocks of bf16 are encoded and decoded on the way, whatever the layout
// of the tensors, so engines of different layouts share them. Each thread then has memory for one
// block in the engine's form and one in the stored form.
//
// No call blocks, neither for the agent nor for a copy. Onboards are copied ahead of offloads,
// block by block. A job ends by itself, within the client's timeouts and the copies ahead of it,
// even if the agent is absent, stuck or killed; the job has then failed, which is a miss and no
// error.
//
// In a forked child every job fails as soon as it is started.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_LANES_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_LANES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/fork_guard.h"
#include "client/host_lanes/host_job.h"
#include "client/host_lanes/host_parts.h"
#include "client/host_lanes/host_queue.h"
#include "client/host_lanes/host_tensors.h"
#include "client/lanes/kv_tensors.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier {

inline constexpr size_t kMaxHostThreads = 16;  // Maximum number of threads of one HostLanes.

struct HostLanesOptions {
  // Number of threads that copy, 1 to kMaxHostThreads. Blocks that became ready together are copied
  // by one thread at a time.
  size_t threads = 1;
};

// HostLanes runs jobs. Thread-safe.
class HostLanes {
 public:
  // Opens lanes. REQUIRES: `client` and the tensors outlive the lanes. Errors: kInvalidArgument,
  // naming the field and the value, where Client::SpecOf() or HostTensors::Of() returns it, where
  // the space's codec does not fit its dtype, its shape or these tensors, or where options.threads
  // is out of range.
  static absl::StatusOr<std::unique_ptr<HostLanes>> Open(Client* client, SpaceHandle space,
                                                         const KvTensors& tensors,
                                                         const HostLanesOptions& options = {});
  ~HostLanes() { Close(); }
  // Leaves the object as it is in a forked child.
  static void operator delete(HostLanes* lanes, std::destroying_delete_t) {
    DestroyUnlessForked(lanes);
  }

  // Waits for the blocks that are being copied, and ends all unfinished jobs as failed: the tensors
  // are not touched any more. It is for a caller that cannot destroy the lanes yet, because other
  // threads are calling them. Idempotent. REQUIRES: one thread at a time.
  void Close();

  // Offload() and Onboard() start a job and return. keys[i], of a run in prefix order, names the
  // block that slots[i] holds, or is to hold. Errors, in which case nothing was started:
  // kInvalidArgument, naming what is wrong: keys and slots of different numbers, more than
  // Client::kMaxKeys, a slot that does not exist or, in an onboard, is named twice, a negative
  // timeout; kResourceExhausted, kMaxHostJobs of the direction are running, or
  // Client::kMaxSubmitted calls of the client (retry when one is done); kFailedPrecondition, the
  // lanes are closed.

  // Stores copies of the blocks. `parent` is the key before keys[0]; absent: keys[0] is a root.
  // Blocks that are stored already are not copied. The slots may be overwritten when the job is
  // copied(). `hint` applies to the blocks (KeySequence::hint).
  absl::StatusOr<std::shared_ptr<HostJob>> Offload(std::span<const EngineKey> keys,
                                                   const std::optional<EngineKey>& parent,
                                                   std::span<const uint32_t> slots,
                                                   const ReuseHint& hint = {});
  // Copies back the leading blocks that are in host memory within `timeout`, as Client::Onboard()
  // does; absent: the client's default. Each is copied as soon as it is there, while the rest is on
  // its way from a disk or another node. `hint` applies to the blocks.
  absl::StatusOr<std::shared_ptr<HostJob>> Onboard(
      std::span<const EngineKey> keys, std::span<const uint32_t> slots,
      const std::optional<absl::Duration>& timeout = {}, const ReuseHint& hint = {});

  // Waits until no offload reads one of `slots`, at most `timeout`, for a caller that wants to
  // overwrite them; blocks in these slots are copied ahead of everything else. True: none is read
  // any more. False: some blocks were not copied in time and were given up: they are not published,
  // while the other blocks of their jobs are. The slots may be overwritten either way. Errors:
  // kInvalidArgument, naming the slot.
  absl::StatusOr<bool> AwaitCopied(std::span<const uint32_t> slots, absl::Duration timeout);

  HostCopyStats StatsOf(HostDirection direction) const;

 private:
  HostLanes(Client* client, SpaceHandle space, HostTensors tensors);
  absl::Status CheckSlots(std::span<const uint32_t> slots) const;
  absl::Status CheckBlocks(std::span<const EngineKey> keys, std::span<const uint32_t> slots) const;
  absl::Status CheckOnce(std::span<const uint32_t> slots) const;
  // Returns the job that `submit` has begun. Errors: as Offload().
  template <typename Submit>
  absl::StatusOr<std::shared_ptr<HostJob>> Start(HostDirection direction,
                                                 std::span<const uint32_t> slots, Submit submit);
  void Run();

  const SpaceHandle space_;
  const HostTensors tensors_;
  const HostParts parts_;
  std::vector<std::thread> threads_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_LANES_H_
