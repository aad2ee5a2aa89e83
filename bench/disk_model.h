// DiskModel is a disk with room for a number of blocks, without bytes: it knows which blocks the
// disk holds, and what making room for one costs.
#ifndef KVTIER_BENCH_DISK_MODEL_H_
#define KVTIER_BENCH_DISK_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "bench/trace.h"
#include "core/eviction_order.h"
#include "core/eviction_policy.h"
#include "tier_disk/log/reclaim_order.h"
#include "tier_disk/log/record_index.h"
#include "tier_disk/log/room_shares.h"
#include "tier_disk/log/segment_log.h"

namespace kvtier::bench {

class DiskModel {
 public:
  virtual ~DiskModel() = default;
  // Moves the disk's clock, which stands still between calls and never goes back.
  virtual void AdvanceTo(absl::Time now) = 0;
  virtual bool Contains(uint32_t block) const = 0;
  virtual bool HasChildOf(uint32_t block) const = 0;
  virtual void Touch(uint32_t block) = 0;
  // Makes room and writes. Returns the number of blocks written: this one, and those that were
  // written again to make room. REQUIRES: !Contains(block).
  virtual uint64_t Write(uint32_t block) = 0;
  // Returns the blocks that left the disk for the latest write.
  virtual const std::vector<uint32_t>& left() const = 0;
};

// SegmentDisk is the log of tier_disk without its bytes: it uses the real index, places of records
// and choice of what reclaim appends again.
class SegmentDisk : public DiskModel {
 public:
  // Makes an empty disk. Does not own `trace`. REQUIRES: blocks >= kSegments.
  SegmentDisk(const Trace& trace, uint64_t blocks, EvictionPolicy policy);
  void AdvanceTo(absl::Time now) override { order_.AdvanceTo(now); }
  bool Contains(uint32_t block) const override { return index_.Contains(KeyOf(block)); }
  bool HasChildOf(uint32_t block) const override { return index_.HasChildOf(KeyOf(block)); }
  void Touch(uint32_t block) override;
  uint64_t Write(uint32_t block) override;
  const std::vector<uint32_t>& left() const override { return left_; }

  static constexpr size_t kSegments = 64;

 private:
  // Frees one segment. Returns the number of blocks appended again.
  uint64_t Reclaim();

  const Trace& trace_;
  SegmentLog log_;
  RecordIndex index_{kSegments};
  ReclaimOrder order_;
  RoomShares shares_;  // Shares of the one tenant.
  std::vector<uint32_t> left_;
};

// LruDisk evicts its coldest leaf for each block that it takes. Published results assume this, and
// no log can do it.
class LruDisk : public DiskModel {
 public:
  // Makes an empty disk. Does not own `trace`.
  LruDisk(const Trace& trace, uint64_t blocks);
  bool Contains(uint32_t block) const override { return places_[block].has_value(); }
  bool HasChildOf(uint32_t block) const override { return children_here_[block] > 0; }
  void AdvanceTo(absl::Time now) override { order_.AdvanceTo(now); }
  void Touch(uint32_t block) override;
  uint64_t Write(uint32_t block) override;
  const std::vector<uint32_t>& left() const override { return left_; }

 private:
  const Trace& trace_;
  const uint64_t blocks_;
  std::vector<uint32_t> left_;
  std::vector<uint32_t> children_here_;
  std::vector<std::optional<EvictionOrder::Place>> places_;  // Place of each block.
  EvictionOrder order_{EvictionPolicy::kLru,
                       [this](const BlockKey& key) { return places_[BlockOf(key)]; }};
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_DISK_MODEL_H_
