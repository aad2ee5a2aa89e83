#include "agent/peers/directory_sync.h"

#include <algorithm>
#include <utility>

#include "agent/limits.h"

namespace kvtier {

void DirectorySync::Add(const NamedDelta& delta) {
  if (snapshot_due_) return;  // The snapshot will tell it.
  // A snapshot may be larger than the limit, because it has all blocks of the node.
  if (outbox_.size() - snapshot_left_ >= kMaxPendingDeltas) {
    Abandon();
    return;
  }
  outbox_.push_back(delta);
}

void DirectorySync::Abandon() {
  first_unacked_ += outbox_.size();
  outbox_.clear();
  parts_left_ = false;
  snapshot_left_ = 0;
  snapshot_due_ = true;
}

void DirectorySync::TakePart() {
  std::vector<NamedDelta> part;
  parts_left_ = snapshot_part_(/*is_first=*/snapshot_due_, &part);
  outbox_.insert(outbox_.end(), part.begin(), part.end());
  snapshot_left_ = outbox_.size();
  if (!std::exchange(snapshot_due_, false)) return;
  snapshot_started_ = false;
  snapshot_done_ = false;
}

Report DirectorySync::Next() {
  // One part, so that a node with millions of blocks does not take them all in one turn.
  if (snapshot_due_ || (parts_left_ && outbox_.size() < kMaxDeltasPerMessage)) TakePart();
  Report report{.node = node_,
                .node_epoch = epoch_,
                .coordinator_epoch = coordinator_epoch_,
                .address = address_,
                .first_sequence = first_unacked_};
  const size_t count = std::min(outbox_.size(), kMaxDeltasPerMessage);
  report.deltas.assign(outbox_.begin(), outbox_.begin() + count);
  report.snapshot_begin = !snapshot_started_;
  report.snapshot_end = !snapshot_done_ && !parts_left_ && count >= snapshot_left_;
  return report;
}

void DirectorySync::OnReply(const ReportReply& reply) {
  const bool moved_on = reply.coordinator_epoch != coordinator_epoch_;
  coordinator_epoch_ = reply.coordinator_epoch;
  const uint64_t acknowledged = reply.next_sequence - first_unacked_;
  // The first answer tells the coordinator's epoch; a later change of the epoch voids earlier
  // reports.
  if (reply.resync || (moved_on && snapshot_done_) || acknowledged > outbox_.size()) {
    Abandon();
    return;
  }
  if (snapshot_due_) return;  // The reply answers a report that was abandoned meanwhile.
  snapshot_started_ = true;
  if (!snapshot_done_) {
    snapshot_left_ -= std::min<uint64_t>(snapshot_left_, acknowledged);
    snapshot_done_ = !parts_left_ && snapshot_left_ == 0;
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + acknowledged);
  first_unacked_ = reply.next_sequence;
}

}  // namespace kvtier
