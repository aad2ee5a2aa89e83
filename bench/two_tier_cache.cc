#include "bench/two_tier_cache.h"

#include <optional>

namespace kvtier::bench {

TwoTierCache::TwoTierCache(const Trace& trace, uint64_t host_blocks, DiskModel* disk,
                           Admission* admission, WriteBudget* budget)
    : trace_(trace),
      host_blocks_(host_blocks),
      disk_(disk),
      admission_(admission),
      budget_(budget),
      host_hits_(trace.parents.size(), 0) {}

ReplayResult TwoTierCache::Replay() {
  for (const TraceRequest& request : trace_.requests) {
    now_ = absl::UnixEpoch() + request.at;
    CountHits(request);
    PutInHost(request);
    EvictFromHost();
  }
  return result_;
}

void TwoTierCache::CountHits(const TraceRequest& request) {
  result_.tokens += request.tokens;
  for (const uint32_t block : request.blocks) {
    if (host_.Contains(KeyOf(block))) {
      result_.host_tokens += kTokensPerBlock;
    } else if (disk_->Contains(block)) {
      result_.disk_tokens += kTokensPerBlock;
      ++result_.disk_served;
    } else {
      return;
    }
  }
}

void TwoTierCache::PutInHost(const TraceRequest& request) {
  // Before its new blocks come: being put is no reuse.
  for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
    if (disk_->Contains(*block)) disk_->Touch(*block);
  }
  for (const uint32_t block : request.blocks) {
    const BlockKey key = KeyOf(block);
    if (host_.Contains(key)) {
      ++host_hits_[block];
    } else {
      std::optional<BlockKey> parent;
      if (trace_.parents[block] != kNoBlock) parent = KeyOf(trace_.parents[block]);
      host_.Insert(key, parent);
      host_hits_[block] = 0;
      admission_->Entered(key);
    }
    if (admission_->moment() == WriteMoment::kAtCommit) Offer(block);
  }
  for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
    host_.Touch(KeyOf(*block));
  }
}

void TwoTierCache::EvictFromHost() {
  while (host_.size() > host_blocks_) {
    const BlockKey victim = *host_.Victim();
    if (admission_->moment() == WriteMoment::kAtEviction) Offer(BlockOf(victim));
    host_.Erase(victim);
  }
}

void TwoTierCache::Offer(uint32_t block) {
  if (disk_->Contains(block)) return;
  const WriteCandidate candidate{.key = KeyOf(block),
                                 .record_bytes = kRecordBytes,
                                 .host_hits = host_hits_[block],
                                 .disk_has_child = disk_->HasChildOf(block)};
  if (admission_->Decide(candidate, now_) != WriteDecision::kWrite) return;
  const uint64_t written = disk_->Write(block);
  budget_->Charge((written - 1) * kRecordBytes, now_);
  ++result_.disk_admitted;
  result_.disk_written += written;
}

}  // namespace kvtier::bench
