// WriteBudget spreads a drive's permitted writes over its days: a token bucket in bytes, filled at
// drive writes per day times capacity. It decides whether there is room for a write, not which
// write deserves it (admission.h).
//
// Pure: time is an argument, and a clock that goes back adds nothing. Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_
#define KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvtier {

// Default capacity of the bucket, in time. An hour lets a busy hour spend what a quiet one saved,
// and still bounds what a loop of restarts, each with a full bucket, can write.
inline constexpr absl::Duration kDefaultWriteBurst = absl::Hours(1);
// Maximum capacity; above a day the rate would no longer be drive writes per day.
inline constexpr absl::Duration kMaxWriteBurst = absl::Hours(24);
// Limit above the rating of the most durable drives sold (60); a higher value is a typing error.
inline constexpr double kMaxDriveWritesPerDay = 100;

struct WriteBudgetOptions {
  // Number of times a day that the whole drive may be written. Drives are rated for 0.3 to 3 over
  // five years, a few for 60. 0: unlimited.
  double drive_writes_per_day = 0;
  // Bytes of one drive write: the capacity of the drive or, as a careful choice where other
  // programs write to the drive, too, of our part of it.
  uint64_t drive_bytes = 0;
  absl::Duration burst = kDefaultWriteBurst;

  // Returns kInvalidArgument, naming the field and its value, if a field is out of range.
  absl::Status Validate() const;
};

class WriteBudget {
 public:
  // Makes a budget with a full bucket. REQUIRES: options.Validate().ok().
  explicit WriteBudget(const WriteBudgetOptions& options);

  // Takes `bytes` if the bucket has that many; false: nothing was taken. A request larger than the
  // bucket succeeds when the bucket is full, and leaves a debt.
  bool Take(uint64_t bytes, absl::Time now);
  // Takes `bytes` that must be written in any case (reclaim re-appends). What the bucket lacks
  // becomes a debt, which later time pays off before Take() succeeds again.
  void Charge(uint64_t bytes, absl::Time now);

  // Returns how many bytes Take() would give; the largest uint64_t when unlimited.
  uint64_t Available(absl::Time now);
  // Returns the spent part of the bucket: from 0 (full, or unlimited) to 1 (empty, or in debt).
  double Utilisation(absl::Time now);
  bool unlimited() const { return bytes_per_second_ == 0; }
  // Returns the sum of all bytes that Take() and Charge() took.
  uint64_t written_bytes() const { return written_bytes_; }

 private:
  void Fill(absl::Time now);

  const double bytes_per_second_;
  const double bucket_bytes_;
  double level_;  // Level of the bucket, at most bucket_bytes_; negative: a debt.
  absl::Time filled_ = absl::InfinitePast();
  uint64_t written_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_
