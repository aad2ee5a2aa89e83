// PeerTransport is the seam to other agents (law 9): it brings blocks from a peer
// into memory that the caller provides. It neither verifies nor publishes.
#ifndef KVTIER_AGENT_PEERS_PEER_TRANSPORT_H_
#define KVTIER_AGENT_PEERS_PEER_TRANSPORT_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/block_proof.h"
#include "core/peer_name.h"
#include "core/task.h"

namespace kvtier {

// FetchSink receives fetched blocks. It is called on the executor, in the order of the names.
class FetchSink {
 public:
  virtual ~FetchSink() = default;
  // Returns room for proof.length bytes, or an empty span to skip the bytes. Called when the peer
  // starts to send block `index`. The room must last until Arrived() or the end of the fetch.
  virtual std::span<std::byte> Begin(size_t index, const BlockProof& proof) = 0;
  // Takes block `index`, all of whose bytes are in the room that Begin() gave.
  virtual void Arrived(size_t index) = 0;
};

// FetchRequest names blocks of one tenant as PeerNamer does.
struct FetchRequest {
  PeerTag tag{};
  std::vector<PeerName> names;
};

// FetchTime says how long a fetch may take.
struct FetchTime {
  absl::Time deadline;
  // Longest time without a byte from the peer; infinite: until the deadline.
  absl::Duration silence = absl::InfiniteDuration();
};

// Executor thread only.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;
  // Ends by `time.deadline`, with no use of the sink after that. Blocks that did not
  // arrive are misses; kOk says nothing about how many did.
  // Errors: kUnavailable (not reached, or silent for time.silence), kDeadlineExceeded,
  // kAborted (the peer is busy), kResourceExhausted (too many fetches run here), kDataLoss (the
  // peer broke the protocol).
  virtual Task<absl::Status> Fetch(std::string address, FetchRequest request, FetchTime time,
                                   FetchSink* sink) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_PEER_TRANSPORT_H_
