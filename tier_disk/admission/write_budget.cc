#include "tier_disk/admission/write_budget.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

double BytesPerSecond(const WriteBudgetOptions& options) {
  return options.drive_writes_per_day * static_cast<double>(options.drive_bytes) /
         absl::ToDoubleSeconds(absl::Hours(24));
}

}  // namespace

absl::Status WriteBudgetOptions::Validate() const {
  // Negated, so that a NaN is refused, too.
  if (!(drive_writes_per_day >= 0 && drive_writes_per_day <= kMaxDriveWritesPerDay)) {
    return absl::InvalidArgumentError(absl::StrCat("drive_writes_per_day: ", drive_writes_per_day,
                                                   "; must be 0 to ", kMaxDriveWritesPerDay));
  }
  if (drive_writes_per_day > 0 && drive_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("drive_bytes: 0; must be given where drive_writes_per_day is (",
                     drive_writes_per_day, ")"));
  }
  if (burst <= absl::ZeroDuration() || burst > kMaxWriteBurst) {
    return absl::InvalidArgumentError(absl::StrCat("burst: ", absl::FormatDuration(burst),
                                                   "; must be above 0 and at most ",
                                                   absl::FormatDuration(kMaxWriteBurst)));
  }
  return absl::OkStatus();
}

WriteBudget::WriteBudget(const WriteBudgetOptions& options)
    : bytes_per_second_(BytesPerSecond(options)),
      bucket_bytes_(bytes_per_second_ * absl::ToDoubleSeconds(options.burst)),
      level_(bucket_bytes_) {
  KVT_CHECK(options.Validate().ok());
}

void WriteBudget::Fill(absl::Time now) {
  if (now <= filled_) return;
  if (filled_ != absl::InfinitePast()) {
    const double seconds = absl::ToDoubleSeconds(now - filled_);
    level_ = std::min(bucket_bytes_, level_ + bytes_per_second_ * seconds);
  }
  filled_ = now;
}

bool WriteBudget::Take(uint64_t bytes, absl::Time now) {
  if (!unlimited()) {
    Fill(now);
    const double wanted = static_cast<double>(bytes);
    if (level_ < std::min(wanted, bucket_bytes_)) return false;
    level_ -= wanted;
  }
  written_bytes_ += bytes;
  return true;
}

void WriteBudget::Charge(uint64_t bytes, absl::Time now) {
  written_bytes_ += bytes;
  if (unlimited()) return;
  Fill(now);
  level_ -= static_cast<double>(bytes);
}

uint64_t WriteBudget::Available(absl::Time now) {
  if (unlimited()) return std::numeric_limits<uint64_t>::max();
  Fill(now);
  return static_cast<uint64_t>(std::max(level_, 0.0));
}

double WriteBudget::Utilisation(absl::Time now) {
  if (unlimited()) return 0;
  Fill(now);
  return 1 - std::clamp(level_ / bucket_bytes_, 0.0, 1.0);
}

}  // namespace kvtier
