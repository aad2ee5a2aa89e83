// SimDisk is the Disk seam in virtual time, with faults drawn from a seed. SimDiskMedia holds the
// bytes on it: it outlives the simulated process, and so knows which writes were in progress when
// the process died.
#ifndef KVTIER_TESTS_TESTING_SIM_DISK_H_
#define KVTIER_TESTS_TESTING_SIM_DISK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "core/event.h"
#include "core/executor.h"
#include "tier_disk/io/disk.h"

namespace kvtier::testing {

// Faults of a disk. Chances are 0 to 1 for each I/O. The default disk is slow and never wrong.
struct SimDiskFaults {
  double flip = 0;         // A write lands with one bit wrong.
  double misdirect = 0;    // A write lands on other pages of the same segment.
  double lost = 0;         // A write is acknowledged and never lands.
  double read_error = 0;   // kUnavailable (EIO or short); the buffers are garbage.
  double write_error = 0;  // kUnavailable; some of its sectors landed.
  double full = 0;         // A write answers kResourceExhausted, as ENOSPC does.
  double spike = 0;        // The I/O takes `spike_latency` more.
  absl::Duration latency = absl::Microseconds(80);
  absl::Duration spike_latency = absl::Milliseconds(50);
  double bytes_per_second = 3e9;
};

// Counts of the faults that happened, with which a test compares the tier's counters.
struct SimDiskFaultCounts {
  uint64_t flips = 0;
  uint64_t misdirected = 0;
  uint64_t lost = 0;
  uint64_t errors = 0;
  uint64_t torn = 0;
};

// SimDiskMedia is single-threaded. Bytes that were never written read as zero.
class SimDiskMedia {
 public:
  SimDiskMedia(uint32_t segments, uint64_t segment_bytes, uint64_t seed);

  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }
  uint64_t segment_bytes() const { return segment_bytes_; }

  // Returns the raw bytes, for tests that damage or swap records. REQUIRES: they lie in the
  // segment.
  std::vector<std::byte> ReadRaw(DiskAddress from, uint64_t bytes) const;
  void WriteRaw(DiskAddress to, std::span<const std::byte> bytes);
  void FlipBit(DiskAddress at, uint64_t bit);
  // Writes a random subset of the 512-byte sectors of `bytes`, as a write that is cut short does.
  void WriteTorn(DiskAddress to, std::span<const std::byte> bytes);

  // Returns true with probability `chance`, by the media's own seed.
  bool Draw(double chance);
  uint64_t Below(uint64_t bound);  // Returns a number that is uniform in [0, bound).

  SimDiskFaults faults;
  SimDiskFaultCounts counts;

 private:
  std::span<std::byte> Bytes(DiskAddress at, uint64_t bytes);

  const uint64_t segment_bytes_;
  std::vector<std::vector<std::byte>> segments_;  // Each is empty until it is written.
  std::mt19937_64 random_;
};

// SimDisk is one process's handle. To crash the process, destroy the tasks that wait here: a write
// in progress is then torn, and every acknowledged write stays.
class SimDisk final : public Disk {
 public:
  // Makes a disk. Does not own `executor` and `media`; `media` outlives the disk and its tasks.
  SimDisk(Executor* executor, SimDiskMedia* media) : executor_(executor), media_(media) {}

  uint32_t segment_count() const override { return media_->segment_count(); }
  uint64_t segment_bytes() const override { return media_->segment_bytes(); }
  Task<absl::Status> Read(IoClass io_class, DiskAddress from,
                          std::span<const std::span<std::byte>> into) override;
  Task<absl::Status> Write(IoClass io_class, DiskAddress to,
                           std::span<const std::span<const std::byte>> from) override;

  void MoveToForeground(DiskAddress /*from*/, uint64_t /*bytes*/) override {}  // There is no queue.

  // Lets no I/O end until Resume().
  void Stall();
  void Resume();

 private:
  Task<void> Wait(uint64_t bytes);

  Executor* const executor_;
  SimDiskMedia* const media_;
  std::shared_ptr<Event> stalled_;  // Event that ends the stall; null: not stalled.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_DISK_H_
