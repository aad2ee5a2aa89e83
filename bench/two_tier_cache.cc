#include "bench/two_tier_cache.h"

#include <algorithm>

namespace kvtier::bench {

TwoTierCache::TwoTierCache(const Trace& trace, ReplayedCache* host, DiskModel* disk,
                           Admission* admission, WriteBudget* budget)
    : trace_(trace),
      host_(host),
      disk_(disk),
      admission_(admission),
      budget_(budget),
      host_hits_(trace.parents.size(), 0) {}

ReplayResult TwoTierCache::Replay() {
  for (const TraceRequest& request : trace_.requests) {
    now_ = absl::UnixEpoch() + request.at;
    disk_->AdvanceTo(now_);
    CountHits(request);
    PutInHost(request);
  }
  return result_;
}

void TwoTierCache::CountHits(const TraceRequest& request) {
  result_.tokens += request.tokens;
  uint64_t tokens_left = request.tokens;
  for (const uint32_t block : request.blocks) {
    const uint64_t tokens = std::min(kTokensPerBlock, tokens_left);
    tokens_left -= tokens;
    if (host_->Contains(block)) {
      result_.host_tokens += tokens;
    } else if (disk_->Contains(block)) {
      result_.disk_tokens += tokens;
      ++result_.disk_served;
    } else {
      return;
    }
  }
}

void TwoTierCache::PutInHost(const TraceRequest& request) {
  // Done before its new blocks come, because being put is no reuse.
  for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
    if (disk_->Contains(*block)) disk_->Touch(*block);
  }
  for (const uint32_t block : request.blocks) {
    if (host_->Contains(block)) {
      ++host_hits_[block];
    } else {
      host_hits_[block] = 0;
      admission_->Entered(KeyOf(block));
    }
    if (admission_->moment() == WriteMoment::kAtCommit) Offer(block);
  }
  host_->Request(request);
  for (const uint32_t block : request.blocks) host_->NoteBelow(block, disk_->Contains(block));
  if (admission_->moment() != WriteMoment::kAtEviction) return;
  for (const uint32_t block : host_->left()) Offer(block);
}

void TwoTierCache::Offer(uint32_t block) {
  if (disk_->Contains(block)) return;
  const WriteCandidate candidate{.key = KeyOf(block),
                                 .record_bytes = kRecordBytes,
                                 .host_hits = host_hits_[block],
                                 .disk_has_child = disk_->HasChildOf(block)};
  if (admission_->Decide(candidate, now_) != WriteDecision::kWrite) return;
  const uint64_t written = disk_->Write(block);
  for (const uint32_t left : disk_->left()) host_->NoteBelow(left, false);
  host_->NoteBelow(block, true);
  budget_->Charge((written - 1) * kRecordBytes, now_);
  ++result_.disk_admitted;
  result_.disk_written += written;
}

}  // namespace kvtier::bench
