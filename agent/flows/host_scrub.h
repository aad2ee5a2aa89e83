// HostScrub proves the blocks in host memory again in the background, at a bounded rate: a worker
// may have written into a slot that was no longer its own, or memory may have lost a bit. What
// changed is dropped (HostProver), so that the next asker has it from a disk or a peer.
//
// A pass goes once through the arenas, by offset. A block that is in memory during a whole pass is
// proven in it, so a change is found within two passes. Each takes as long as the bytes in host
// memory over the rate, or one second if that is longer. docs/design/host.md.
//
// Executor thread only; blocks are pinned while they are read, a few at a time.
#ifndef KVTIER_AGENT_FLOWS_HOST_SCRUB_H_
#define KVTIER_AGENT_FLOWS_HOST_SCRUB_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "agent/index/block_index.h"
#include "agent/index/host_prover.h"
#include "core/executor.h"
#include "core/scrub_pacer.h"
#include "core/task.h"
#include "core/waits.h"

namespace kvtier {

// Default rate: a hundredth of what one core sums.
inline constexpr uint64_t kHostScrubBytesPerSecond = uint64_t{64} << 20;
// Bytes and blocks that are pinned at once.
inline constexpr uint64_t kHostScrubBatchBytes = uint64_t{1} << 20;
inline constexpr size_t kHostScrubBatchBlocks = 64;
// Least time from the beginning of one pass to that of the next.
inline constexpr absl::Duration kHostScrubInterval = absl::Seconds(1);

struct HostScrubReport {
  uint64_t bytes_per_second = 0;  // Rate of the scrub; 0: nothing is scrubbed.
  uint64_t passes = 0;            // Passes that ended.
  absl::Duration last_pass;       // Duration of the latest pass.
  uint64_t blocks = 0;            // Number of blocks proven, in all passes.
  uint64_t bytes = 0;             // Bytes of those blocks.
  uint64_t altered = 0;           // Number of blocks that had changed and were dropped.
};

class HostScrub {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    Waits* waits = nullptr;
    BlockIndex* index = nullptr;
    HostProver* prover = nullptr;
  };
  HostScrub(const Parts& parts, uint64_t bytes_per_second) : parts_(parts) {
    report_.bytes_per_second = bytes_per_second;
  }

  // Scrubs until the waits end; ends at once if the rate is 0.
  Task<void> Run();
  const HostScrubReport& report() const { return report_; }

 private:
  // Waits until the pacer lets the next batch begin.
  Task<void> AwaitTurn();
  Task<void> RunPass();

  const Parts parts_;
  ScrubPacer pacer_;
  HostScrubReport report_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_HOST_SCRUB_H_
