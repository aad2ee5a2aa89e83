// FakePeer is another node. It holds the blocks that a test gives it, and sends them with the
// damage that the test asks for. It runs a real Peer service in the test's process, and reports its
// blocks to a real coordinator.
#ifndef KVTIER_TESTS_TESTING_FAKE_PEER_H_
#define KVTIER_TESTS_TESTING_FAKE_PEER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/peer_namer.h"
#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "kvtier/v1/coordinator.grpc.pb.h"
#include "kvtier/v1/peer.grpc.pb.h"
#include "tests/testing/open_peer_namer.h"

namespace kvtier::testing {

// Damage is the fault of every block that the peer sends. Blocks go in two chunks.
enum class Damage {
  kNone,
  kFlippedBit,        // One bit in the payload's second half is flipped.
  kWrongSum,          // The proof has its MAC, but is that of other bytes.
  kWrongMac,          // The proof's MAC is wrong.
  kMembersProof,      // The MAC is made with the key that members of a share group are told.
  kOtherBlock,        // Bytes and proof of another key that was asked for.
  kOtherSpace,        // The proof names a space that was not asked for.
  kWrongLength,       // The proof promises less than a block of the space.
  kNoProof,           // The first chunk says nothing of the block.
  kShort,             // The second half never comes; the stream ends well.
  kLong,              // More bytes than the proof promised.
  kGap,               // The second half claims to lie elsewhere.
  kRepeatedChunk,     // The second half comes twice.
  kIndexOutOfRange,   // An index beyond the keys that were asked for.
  kStall,             // The second half never comes, nor does an end.
  kSilence,           // The peer sends nothing.
  kNothing,           // It does not hold the block after all.
  kError,             // UNAVAILABLE.
  kOversizedMessage,  // A chunk above gRPC's limit.
};
const char* DamageName(Damage damage);

// FakePeer is thread-safe.
class FakePeer {
 public:
  // Listens on `address`, as a node of this name; aborts if it cannot.
  explicit FakePeer(const std::string& address, const std::string& name = "fake-peer");
  ~FakePeer();

  // Adds a block. `payload` is what an honest peer would send.
  void Hold(const BlockMeta& meta, std::vector<std::byte> payload);
  void Send(Damage damage);
  // Makes it a node of the tenant with this secret, before it holds blocks. The default is the open
  // tenant.
  void ServeTenant(const std::string& secret);
  // Tells the coordinator of all held blocks, as a new life of the node. The coordinator
  // believes this for the node timeout of 5 s. Errors: the coordinator's.
  absl::Status Report(const std::shared_ptr<grpc::Channel>& coordinator);
  uint64_t fetches() const;  // Number of fetches asked of it so far.

 private:
  struct Held {
    BlockMeta meta;
    std::vector<std::byte> payload;
  };
  class Service;

  Held Find(const PeerName& name) const;
  BlockProof Proof(Damage damage, const BlockMeta& meta) const;
  // Counts a fetch and returns its damage.
  Damage Begin();

  const std::string address_;
  const std::string name_;
  mutable absl::Mutex mu_;
  std::map<BlockKey, Held> blocks_ ABSL_GUARDED_BY(mu_);
  std::string secret_ ABSL_GUARDED_BY(mu_);
  PeerNamer namer_ ABSL_GUARDED_BY(mu_) = OpenPeerNamer();
  Damage damage_ ABSL_GUARDED_BY(mu_) = Damage::kNone;
  uint64_t fetches_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t lives_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_PEER_H_
