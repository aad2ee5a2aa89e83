// WriteBudget spreads what a drive may be written over its days: a token bucket in
// bytes, filled at drive writes per day times capacity. It decides whether there is
// room for a write, not which write deserves it (admission.h).
//
// Pure: time comes in as an argument, and a clock that goes back adds nothing.
// Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_
#define KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvtier {

// What a full bucket holds, in time. An hour lets a busy hour spend what a quiet one
// saved and still bounds what a loop of restarts, each with a full bucket, can write.
inline constexpr absl::Duration kDefaultWriteBurst = absl::Hours(1);
// More than a day would no longer be drive writes per day.
inline constexpr absl::Duration kMaxWriteBurst = absl::Hours(24);
// Above what the most durable drives are sold for (60); more is a slip of the pen.
inline constexpr double kMaxDriveWritesPerDay = 100;

struct WriteBudgetOptions {
  // How often a day the whole drive may be written; drives are sold for 0.3 to 3 over
  // five years, a few for 60. 0: unlimited.
  double drive_writes_per_day = 0;
  // What one drive write is: the drive, or the part of it that is ours, which is the
  // careful choice where others write the rest.
  uint64_t drive_bytes = 0;
  absl::Duration burst = kDefaultWriteBurst;

  // Errors: kInvalidArgument, naming the field and its value.
  absl::Status Validate() const;
};

class WriteBudget {
 public:
  // Starts with a full bucket. REQUIRES: options.Validate().ok().
  explicit WriteBudget(const WriteBudgetOptions& options);

  // Takes `bytes` if that many are there; false: nothing was taken. What is larger
  // than the bucket passes when the bucket is full, and leaves a debt.
  bool Take(uint64_t bytes, absl::Time now);
  // Takes `bytes` that have to be written anyhow (reclaim re-appends). What is not
  // there becomes a debt, which later time pays off before Take() succeeds again.
  void Charge(uint64_t bytes, absl::Time now);

  // What Take() would give; the largest uint64_t when unlimited.
  uint64_t Available(absl::Time now);
  // How much of the bucket is spent: 0 full (or unlimited) to 1 empty or in debt.
  double Utilisation(absl::Time now);
  bool unlimited() const { return bytes_per_second_ == 0; }
  // All that Take() and Charge() ever took.
  uint64_t written_bytes() const { return written_bytes_; }

 private:
  void Fill(absl::Time now);

  const double bytes_per_second_;
  const double bucket_bytes_;
  double level_;  // At most bucket_bytes_; negative: a debt.
  absl::Time filled_ = absl::InfinitePast();
  uint64_t written_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_WRITE_BUDGET_H_
