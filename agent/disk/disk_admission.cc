#include "agent/disk/disk_admission.h"

#include "core/check.h"

namespace kvtier {

const char* WritePolicyName(WritePolicy policy) {
  switch (policy) {
    case WritePolicy::kAll:
      return "all";
    case WritePolicy::kSecondTouch:
      return "second_touch";
    case WritePolicy::kPredictedReuse:
      break;
  }
  return "predicted_reuse";
}

const char* WriteMomentName(WriteMoment moment) {
  return moment == WriteMoment::kAtCommit ? "commit" : "eviction";
}

DiskAdmission::Gate::Gate(const DiskWriteOptions& options, uint64_t disk_bytes)
    : disk_bytes(disk_bytes),
      budget({.drive_writes_per_day = options.drive_writes_per_day, .drive_bytes = disk_bytes}),
      admission({.policy = options.policy, .moment = options.moment, .disk_bytes = disk_bytes},
                &budget) {}

DiskAdmission::DiskAdmission(const DiskWriteOptions& options, const DiskSet* disks)
    : options_(options), disks_(disks) {
  for (size_t i = 0; i < disks->disk_count(); ++i) {
    gates_.push_back(std::make_unique<Gate>(options, disks->tier(i).capacity_bytes()));
  }
}

void DiskAdmission::ChargeReappends(size_t disk, absl::Time now) {
  Gate& gate = *gates_.at(disk);
  const uint64_t reappended = disks_->tier(disk).reclaimed().reappended_bytes;
  KVT_CHECK(reappended >= gate.charged_reappends);
  gate.budget.Charge(reappended - gate.charged_reappends, now);
  gate.charged_reappends = reappended;
}

void DiskAdmission::Entered(const BlockKey& key) {
  const std::optional<size_t> disk = disks_->DiskFor(key);
  if (disk.has_value()) gates_.at(*disk)->admission.Entered(key);
}

bool DiskAdmission::MayWrite(const WriteCandidate& candidate, absl::Time now) const {
  const std::optional<size_t> disk = disks_->DiskFor(candidate.key);
  return disk.has_value() && gates_.at(*disk)->admission.MayWrite(candidate, now);
}

std::optional<DiskAdmission::Verdict> DiskAdmission::Decide(const WriteCandidate& candidate,
                                                            absl::Time now) {
  const std::optional<size_t> disk = disks_->DiskFor(candidate.key);
  if (!disk.has_value()) return std::nullopt;
  ChargeReappends(*disk, now);
  return Verdict{.disk = *disk, .decision = gates_.at(*disk)->admission.Decide(candidate, now)};
}

void DiskAdmission::Landed(const WriteCandidate& candidate, const Verdict& verdict,
                           absl::Time now) {
  const std::optional<size_t> holder = disks_->HolderOf(candidate.key);
  if (!holder.has_value() || *holder == verdict.disk) return;
  gates_.at(*holder)->budget.Charge(candidate.record_bytes, now);
}

std::optional<DiskAdmission::Left> DiskAdmission::BudgetLeft(size_t disk, absl::Time now) {
  Gate& gate = *gates_.at(disk);
  if (gate.budget.unlimited()) return std::nullopt;
  ChargeReappends(disk, now);
  const double per_day = options_.drive_writes_per_day * static_cast<double>(gate.disk_bytes);
  return Left{.bytes_per_day = static_cast<uint64_t>(per_day), .bytes = gate.budget.Available(now)};
}

}  // namespace kvtier
