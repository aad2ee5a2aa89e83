// DiskHealth decides from the outcomes and latencies of a disk's I/Os whether the disk is fit to be
// used, and when it may be tried again.
//
//   healthy --too many errors, too slow, stalled--> quarantined
//   quarantined --BeginProbe--> probing --kProbesToReadmit good ones in a row--> healthy
//   probing --a bad one--> quarantined, for twice as long
//   any --Retire--> retired, until the program ends
//
// A full disk is a healthy disk. docs/design/disk_set.md gives the reason for each limit. Pure: no
// I/O and no clock. Executor thread only.
#ifndef KVTIER_TIER_DISK_IO_DISK_HEALTH_H_
#define KVTIER_TIER_DISK_IO_DISK_HEALTH_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tier_disk/io/latency_history.h"

namespace kvtier {

// Errors: kErrorsTooMany of the last kErrorWindow I/Os failed.
inline constexpr int kErrorWindow = 64;
inline constexpr int kErrorsTooMany = 16;

// Latency: kSlowTooMany of the last kSlowWindow I/Os were slow (more than half, so their median
// was). An I/O is slow if it took over kSlowFactor times what the disk usually takes for its size,
// and over kSlowFloor, and over what its backlog takes at kSlowestBytesPerSecond. Of slow I/Os that
// overlap in time only one counts, so that a single pause of 60 ms with 32 I/Os in flight does not
// make a disk slow.
inline constexpr int kSlowWindow = 32;
inline constexpr int kSlowTooMany = 17;
inline constexpr double kSlowFactor = 20;
inline constexpr absl::Duration kSlowFloor = absl::Milliseconds(50);
inline constexpr double kSlowestBytesPerSecond = 100e6;

// Stall: for this long no I/O ended while at least one was in flight ...
inline constexpr absl::Duration kSilenceLimit = absl::Seconds(2);
// ... or a single I/O did not end for this long, even if others ended.
inline constexpr absl::Duration kStallLimit = absl::Seconds(15);

// Time from quarantine to the first probe; doubled by each bad probe and each relapse.
inline constexpr absl::Duration kFirstProbeAfter = absl::Seconds(1);
inline constexpr absl::Duration kMaxProbeInterval = absl::Minutes(5);
// Time between good probes.
inline constexpr absl::Duration kProbeSpacing = absl::Milliseconds(250);
inline constexpr int kProbesToReadmit = 4;
// A quarantine sooner than this after the end of the last one is a relapse.
inline constexpr absl::Duration kTrustAfter = absl::Minutes(10);

enum class DiskState : uint8_t { kHealthy, kQuarantined, kProbing, kRetired };

// Outcome of an I/O. kFull: there was no room, on the file system or in a queue; this never affects
// health.
enum class IoOutcome : uint8_t { kOk, kError, kFull };

// Report of one I/O that ended.
struct IoReport {
  IoOutcome outcome = IoOutcome::kOk;
  absl::Duration latency;
  uint64_t bytes = 0;
  uint64_t backlog_bytes = 0;  // Bytes in flight when it began, its own included.
};

class DiskHealth {
 public:
  DiskState state() const { return state_; }
  bool healthy() const { return state_ == DiskState::kHealthy; }
  uint64_t quarantines() const { return quarantines_; }  // Number so far.
  // Returns one line for an operator: "healthy", or the state and its reason.
  std::string Describe() const;

  // Records an I/O that ended. While the disk is not healthy, only the time of this end is
  // recorded, because an I/O that began earlier says nothing new.
  void Record(const IoReport& report, absl::Time now);
  // Reports that the oldest I/O in flight began at `oldest_start`. Call it regularly while there is
  // one, because during a stall nothing else happens.
  void Outstanding(absl::Time oldest_start, absl::Time now);

  // Returns when the next probe may begin; InfiniteFuture while healthy and during a probe.
  absl::Time next_probe() const { return next_probe_; }
  // Begins a probe. REQUIRES: next_probe() <= now, and no other I/O is in flight.
  void BeginProbe(absl::Time now);
  // Records the end of a probe. Ignores a probe that was given up (Outstanding, Retire).
  void RecordProbe(const IoReport& report, absl::Time now);

  // Takes the disk out of service until the program ends; the reason is for an operator.
  void Retire(std::string reason);

 private:
  bool IsAboveFloor(const IoReport& report) const;
  void Quarantine(std::string reason, absl::Time now);
  void FailProbe(absl::Time now);

  DiskState state_ = DiskState::kHealthy;
  std::string reason_;  // Reason of the last quarantine.
  uint64_t quarantines_ = 0;
  LatencyHistory history_;
  // Last I/Os, the latest in the lowest bit; a set bit means failed, or slow.
  uint64_t failed_ = 0;
  uint32_t slow_ = 0;
  absl::Time last_slow_end_ = absl::InfinitePast();  // End of the last slow I/O that was counted.
  absl::Time last_end_ = absl::InfinitePast();

  absl::Duration interval_;
  absl::Time next_probe_ = absl::InfiniteFuture();
  bool probe_under_way_ = false;
  int good_probes_ = 0;  // Number in a row.
  int bad_probes_ = 0;   // Number in this quarantine.
  absl::Time healthy_since_ = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DISK_HEALTH_H_
