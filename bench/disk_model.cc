#include "bench/disk_model.h"

#include <optional>
#include <utility>

#include "core/check.h"
#include "tier_disk/log/reclaim.h"
#include "tier_disk/log/record.h"

namespace kvtier::bench {
namespace {

// Payload of each block. Its size has no effect, because all are equal.
constexpr uint64_t kLength = kRecordHeaderBytes;

}  // namespace

SegmentDisk::SegmentDisk(const Trace& trace, uint64_t blocks, EvictionPolicy policy)
    : trace_(trace),
      log_(std::vector<SegmentLog::Found>(kSegments), blocks / kSegments * RecordBytes(kLength)),
      order_(policy, kSegments, &index_),
      shares_(kSegments * log_.segment_bytes(), log_.segment_bytes()) {
  KVT_CHECK(log_.segment_bytes() > 0);
}

void SegmentDisk::Touch(uint32_t block) {
  order_.NoteUse(KeyOf(block), {});
  index_.Touch(KeyOf(block));
}

uint64_t SegmentDisk::Write(uint32_t block) {
  left_.clear();
  uint64_t written = 1;
  std::optional<RecordPlace> place = log_.Reserve(RecordBytes(kLength), SegmentLog::Use::kPut);
  for (; !place; place = log_.Reserve(RecordBytes(kLength), SegmentLog::Use::kPut)) {
    written += Reclaim();
  }
  DiskBlock written_block{.key = KeyOf(block), .length = kLength};
  if (trace_.parents[block] != kNoBlock) written_block.parent = KeyOf(trace_.parents[block]);
  index_.Insert(written_block, *place);
  order_.NotePut(written_block.key);
  log_.EndWrite(*place);
  return written;
}

uint64_t SegmentDisk::Reclaim() {
  const uint64_t budget_bytes = log_.segment_bytes() / 2;
  const SegmentId victim =
      ChooseVictim({.log = &log_, .index = &index_, .order = &order_, .shares = &shares_},
                   budget_bytes)
          ->victim;
  log_.BeginReclaim(victim);
  order_.BeginReclaim(victim);
  const ReclaimPlan plan =
      PlanReclaim(index_, order_, {.victim = victim, .budget_bytes = budget_bytes});
  for (const BlockKey& key : plan.reappend) {
    const RecordPlace place = *log_.Reserve(RecordBytes(kLength), SegmentLog::Use::kReclaim);
    index_.Move(key, place);
    log_.EndWrite(place);
  }
  for (const BlockKey& key : plan.drop) {
    index_.Erase(key);
    left_.push_back(BlockOf(key));
  }
  log_.Free(victim, log_.NextGeneration());
  return plan.reappend.size();
}

LruDisk::LruDisk(const Trace& trace, uint64_t blocks)
    : trace_(trace),
      blocks_(blocks),
      children_here_(trace.parents.size(), 0),
      places_(trace.parents.size()) {
  KVT_CHECK(blocks_ > 0);
}

void LruDisk::Touch(uint32_t block) {
  if (places_[block].has_value()) order_.Touch(*places_[block]);
}

uint64_t LruDisk::Write(uint32_t block) {
  left_.clear();
  if (order_.size() == blocks_) {
    const uint32_t victim = BlockOf(*order_.Victim());
    order_.Erase(*places_[victim]);
    places_[victim].reset();
    left_.push_back(victim);
    const uint32_t parent = trace_.parents[victim];
    if (parent != kNoBlock) --children_here_[parent];
  }
  EvictionOrder::Newcomer newcomer{.key = KeyOf(block)};
  if (const uint32_t parent = trace_.parents[block]; parent != kNoBlock) {
    newcomer.parent = KeyOf(parent);
    ++children_here_[parent];
  }
  places_[block] = order_.Insert(newcomer);
  return 1;
}

}  // namespace kvtier::bench
