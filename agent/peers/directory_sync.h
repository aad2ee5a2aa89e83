// DirectorySync keeps the coordinator's picture of this node true: it numbers the
// changes, repeats what was not acknowledged, and starts over with a snapshot when
// the two sides no longer agree. It does no I/O: it says what to send, and takes the answers.
//
// A number is never used for two changes, not even when a snapshot replaces what was
// not acknowledged: a report that was believed lost and arrives late must find its
// numbers known, or its changes would be taken for others.
//
// Executor thread only. Invariant: the outbox holds exactly the numbers
// [first_unacked, first_unacked + size), or a snapshot is due.
#ifndef KVTIER_AGENT_PEERS_DIRECTORY_SYNC_H_
#define KVTIER_AGENT_PEERS_DIRECTORY_SYNC_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/node.h"
#include "core/report.h"

namespace kvtier {

class DirectorySync {
 public:
  // SnapshotPart adds blocks that the other side is to know, as adds: the first part of a snapshot
  // if `is_first`, else the part after the last one. Returns false if no part comes after it.
  // Changes that come between two parts are told by Add().
  using SnapshotPart = absl::AnyInvocable<bool(bool is_first, std::vector<NamedDelta>* deltas)>;

  DirectorySync(NodeId node, Epoch epoch, std::string address, SnapshotPart snapshot_part)
      : node_(std::move(node)),
        epoch_(epoch),
        address_(std::move(address)),
        snapshot_part_(std::move(snapshot_part)) {}

  // Adds one change of the node. If more than kMaxPendingDeltas changes wait, what is left of a
  // snapshot not counted, a new snapshot replaces them.
  void Add(const NamedDelta& delta);
  // Returns whether a snapshot is to begin, which will tell all that changes until then.
  bool snapshot_due() const { return snapshot_due_; }
  // Returns whether there is more to say than a heartbeat.
  bool HasNews() const { return !synced() || !outbox_.empty(); }
  // Returns the next report; at most kMaxDeltasPerMessage deltas. Changes nothing that a lost
  // report would need again.
  Report Next();
  // Takes the coordinator's answer to the last report of Next(): forgets the changes that it
  // acknowledged, or begins a snapshot where it lacks some or is another incarnation.
  void OnReply(const ReportReply& reply);
  // Returns whether the coordinator has acknowledged a whole snapshot, and nothing voided that
  // since.
  bool synced() const { return !snapshot_due_ && snapshot_done_; }

 private:
  // Takes one more part of the snapshot, which goes behind the changes that wait.
  void TakePart();
  // Drops the changes that wait: a snapshot will tell them.
  void Abandon();

  const NodeId node_;
  const Epoch epoch_;
  const std::string address_;
  SnapshotPart snapshot_part_;
  Epoch coordinator_epoch_;
  bool snapshot_due_ = true;       // Whether Next() is to begin a snapshot.
  bool snapshot_started_ = false;  // Whether the first report of the snapshot was acknowledged.
  bool parts_left_ = false;        // Whether more parts of the snapshot are to be taken.
  bool snapshot_done_ = false;     // Whether all reports of the snapshot were acknowledged.
  // Deltas of the outbox up to the last that belongs to the snapshot.
  size_t snapshot_left_ = 0;
  uint64_t first_unacked_ = 0;
  std::deque<NamedDelta> outbox_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_DIRECTORY_SYNC_H_
