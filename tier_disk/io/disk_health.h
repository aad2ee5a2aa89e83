// DiskHealth decides whether one disk is fit to be used, from the outcomes and the
// latencies of its I/Os, and when it may be tried again.
//
//   healthy --too many errors, too slow, stalled--> quarantined
//   quarantined --BeginProbe--> probing --kProbesToReadmit good ones in a row--> healthy
//   probing --a bad one--> quarantined, for twice as long
//
// A full disk is a healthy disk. Why each limit is what it is: docs/design/disk_set.md.
// Pure: no I/O and no clock. Executor thread only.
#ifndef KVTIER_TIER_DISK_IO_DISK_HEALTH_H_
#define KVTIER_TIER_DISK_IO_DISK_HEALTH_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "tier_disk/io/latency_history.h"

namespace kvtier {

// Errors: this many of the last kErrorWindow I/Os failed.
inline constexpr int kErrorWindow = 64;
inline constexpr int kErrorsTooMany = 16;

// Latency: this many of the last kSlowWindow I/Os (more than half: their median) took
// over kSlowFactor times what the disk usually takes for their size, and over
// kSlowFloor, and over what their backlog takes at kSlowestBytesPerSecond. Of slow I/Os
// that overlap in time one counts: a pause of 60 ms with 32 I/Os in flight is no slow disk.
inline constexpr int kSlowWindow = 32;
inline constexpr int kSlowTooMany = 17;
inline constexpr double kSlowFactor = 20;
inline constexpr absl::Duration kSlowFloor = absl::Milliseconds(50);
inline constexpr double kSlowestBytesPerSecond = 100e6;

// Stall: for this long no I/O ended while at least one was under way ...
inline constexpr absl::Duration kSilenceLimit = absl::Seconds(2);
// ... or a single one did not end for this long, whatever the others did.
inline constexpr absl::Duration kStallLimit = absl::Seconds(15);

// From quarantine to the first probe; doubled by each bad probe and each relapse.
inline constexpr absl::Duration kFirstProbeAfter = absl::Seconds(1);
inline constexpr absl::Duration kMaxProbeInterval = absl::Minutes(5);
// Between good probes.
inline constexpr absl::Duration kProbeSpacing = absl::Milliseconds(250);
inline constexpr int kProbesToReadmit = 4;
// A quarantine sooner than this after the last one's end is a relapse.
inline constexpr absl::Duration kTrustAfter = absl::Minutes(10);

enum class DiskState : uint8_t { kHealthy, kQuarantined, kProbing };

// kFull: there was no room, on the file system or in a queue. Never a matter of health.
enum class IoOutcome : uint8_t { kOk, kError, kFull };

// One I/O that ended.
struct IoReport {
  IoOutcome outcome = IoOutcome::kOk;
  absl::Duration latency;
  uint64_t bytes = 0;
  uint64_t backlog_bytes = 0;  // Under way when it began, its own included.
};

class DiskHealth {
 public:
  DiskState state() const { return state_; }
  bool healthy() const { return state_ == DiskState::kHealthy; }
  uint64_t quarantines() const { return quarantines_; }  // So far.
  // One line for an operator: "healthy", or the state and why.
  std::string Describe() const;

  // An I/O ended. While the disk is not healthy this changes nothing but that
  // something ended: what began before says nothing new.
  void Record(const IoReport& report, absl::Time now);
  // An I/O that began at `oldest_start`, the oldest of them, is still under way. Call
  // it every now and then while there is one: a stall is that nothing else happens.
  void Outstanding(absl::Time oldest_start, absl::Time now);

  // When the next probe may begin; InfiniteFuture while healthy and during a probe.
  absl::Time next_probe() const { return next_probe_; }
  // REQUIRES: next_probe() <= now, and no other I/O is under way.
  void BeginProbe(absl::Time now);
  // The probe's end. A probe that was given up (Outstanding) is ignored.
  void RecordProbe(const IoReport& report, absl::Time now);

 private:
  bool IsAboveFloor(const IoReport& report) const;
  void Quarantine(std::string reason, absl::Time now);
  void FailProbe(absl::Time now);

  DiskState state_ = DiskState::kHealthy;
  std::string reason_;  // Of the last quarantine.
  uint64_t quarantines_ = 0;
  LatencyHistory history_;
  // The last I/Os, the latest in the lowest bit; set: failed, and slow.
  uint64_t failed_ = 0;
  uint32_t slow_ = 0;
  absl::Time last_slow_end_ = absl::InfinitePast();  // Of those counted.
  absl::Time last_end_ = absl::InfinitePast();

  absl::Duration interval_;
  absl::Time next_probe_ = absl::InfiniteFuture();
  bool probe_under_way_ = false;
  int good_probes_ = 0;  // In a row.
  int bad_probes_ = 0;   // Of this quarantine.
  absl::Time healthy_since_ = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_DISK_HEALTH_H_
