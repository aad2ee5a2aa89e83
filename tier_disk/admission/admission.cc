#include "tier_disk/admission/admission.h"

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

absl::Status AdmissionOptions::Validate() const {
  if (disk_bytes == 0) {
    return absl::InvalidArgumentError("disk_bytes: 0; must be positive");
  }
  if (seen_bytes < kMinSeenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("seen_bytes: ", seen_bytes, "; must be at least ", kMinSeenBytes));
  }
  return absl::OkStatus();
}

Admission::Admission(const AdmissionOptions& options, WriteBudget* budget)
    : options_(options),
      budget_(budget),
      seen_(options.seen_bytes),
      predictor_(options.disk_bytes) {
  KVT_CHECK(options.Validate().ok());
}

void Admission::Entered(const BlockKey& key) {
  if (options_.policy != WritePolicy::kPredictedReuse) return;
  predictor_.Entered(key, budget_->written_bytes());
}

bool Admission::MayWrite(const WriteCandidate& candidate, absl::Time now) const {
  if (candidate.disk_has_child) return true;
  if (budget_->Available(now) < candidate.record_bytes) return false;
  return options_.policy != WritePolicy::kSecondTouch || candidate.host_hits > 0 ||
         seen_.Contains(candidate.key);
}

WriteDecision Admission::Decide(const WriteCandidate& candidate, absl::Time now) {
  const WriteDecision decision = Judge(candidate, now);
  seen_.Add(candidate.key);
  switch (decision) {
    case WriteDecision::kWrite:
      ++tally_.write;
      break;
    case WriteDecision::kNotWorthIt:
      ++tally_.not_worth_it;
      break;
    case WriteDecision::kOverBudget:
      ++tally_.over_budget;
      break;
  }
  return decision;
}

WriteDecision Admission::Judge(const WriteCandidate& candidate, absl::Time now) {
  const bool worth_it = IsWorthIt(candidate, now);
  if (candidate.disk_has_child) {
    budget_->Charge(candidate.record_bytes, now);
    return WriteDecision::kWrite;
  }
  if (!worth_it) return WriteDecision::kNotWorthIt;
  return budget_->Take(candidate.record_bytes, now) ? WriteDecision::kWrite
                                                    : WriteDecision::kOverBudget;
}

bool Admission::IsWorthIt(const WriteCandidate& candidate, absl::Time now) {
  switch (options_.policy) {
    case WritePolicy::kAll:
      break;
    case WritePolicy::kSecondTouch:
      return candidate.host_hits > 0 || seen_.Contains(candidate.key);
    case WritePolicy::kPredictedReuse:
      return IsAmongTheLikeliest(candidate, now);
  }
  return true;
}

bool Admission::IsAmongTheLikeliest(const WriteCandidate& candidate, absl::Time now) {
  const ReuseEvidence evidence{.seen_before = seen_.Contains(candidate.key),
                               .host_hits = candidate.host_hits};
  const double probability = predictor_.Predict(evidence);
  predictor_.Judged(candidate.key, evidence, budget_->written_bytes());
  const double better = ranking_.ShareAbove(probability);
  ranking_.Add(probability, candidate.record_bytes);
  // The share of candidates that pass is the level of the bucket: all at a full bucket, the best
  // quarter at a quarter. If candidates exceed the budget, the level settles where the budget pays
  // for all that pass. So there is no controller to tune. When the bucket is empty, the budget
  // refuses even the best candidate.
  return better <= 1 - budget_->Utilisation(now);
}

}  // namespace kvtier
