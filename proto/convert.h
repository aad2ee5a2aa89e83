// convert is the one validator of wire input: everything that arrives in a
// kvtier.v1 message becomes a core noun here or is refused here, with an error that
// names the field and the value. Code that gets its results checks nothing again.
#ifndef KVTIER_PROTO_CONVERT_H_
#define KVTIER_PROTO_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/block_proof.h"
#include "core/checksum.h"
#include "core/node.h"
#include "core/peer_name.h"
#include "core/report.h"
#include "core/reuse_hint.h"
#include "core/space.h"
#include "core/tier.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "grpcpp/support/status.h"
#include "kvtier/v1/block.pb.h"
#include "kvtier/v1/coordinator.pb.h"
#include "kvtier/v1/peer.pb.h"
#include "kvtier/v1/version.pb.h"
#include "kvtier/v1/worker.pb.h"
#include "proto/session_packets.h"

namespace kvtier::convert {

inline constexpr uint32_t kProtocolVersion = wire::kSessionVersion;
inline constexpr uint32_t kMinProtocolVersion = wire::kMinSessionVersion;

// Limits of one message; a longer one is kInvalidArgument.
inline constexpr size_t kMaxKeysPerRequest = 8192;  // 131,072 tokens of 16.
// Ids of one kind: leases, reservations, slots, spaces, tickets, swapped sequences.
inline constexpr size_t kMaxIdsPerRequest = kMaxKeysPerRequest;
inline constexpr size_t kMaxSequencesPerRequest = 256;
inline constexpr size_t kMaxDeltasPerReport = 16384;
inline constexpr size_t kMaxHoldersPerBlock = 8;  // Maximum in one answer to Locate.
inline constexpr size_t kMaxNodesPerReply = 4096;
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;
inline constexpr int kMaxMessageBytes = 4 << 20;  // gRPC's receive limit everywhere.
inline constexpr absl::Duration kMaxTimeout = absl::Seconds(60);
inline constexpr size_t kSessionTokenBytes = 16;

// `build` is for people, for example "kvtier-agent 0.1.0".
v1::ProtocolVersion OurVersion(const std::string& build);
// Checks the other side's version. Errors: kFailedPrecondition, with both ranges or both layouts in
// the text: the ranges do not overlap, or the two builds lay out the version that both speak
// differently.
absl::Status CheckVersion(const v1::ProtocolVersion& theirs);

// Errors of all below: kInvalidArgument, naming `field` and the value. Checks how many sequences
// there are, 1 at least, and how many keys they have together. EngineKeysFrom() of
// proto/sequence_keys.h checks the keys themselves.
absl::Status CheckSequences(const google::protobuf::RepeatedPtrField<v1::Sequence>& sequences);
// Checks that a request names no more than kMaxIdsPerRequest ids of a kind.
absl::Status CheckIdCount(int count, const char* field);
// Checks the lengths of a sequence that is to be reserved in a space whose blocks may have the
// lengths `allowed`: there is one length for each key if any length is allowed, else none.
absl::Status CheckLengths(const v1::Sequence& sequence, const BlockLengths& allowed);
// Returns the sequence's hint; the default: it has none.
absl::StatusOr<ReuseHint> ReuseHintFrom(const v1::Sequence& sequence);
absl::StatusOr<PeerName> PeerNameFrom(const std::string& name, const char* field);
absl::StatusOr<std::vector<PeerName>> PeerNamesFrom(
    const google::protobuf::RepeatedPtrField<std::string>& names, const char* field);
absl::StatusOr<SpaceSpec> SpaceFrom(const v1::SpaceSpec& space);
absl::StatusOr<SpaceDigest> SpaceDigestFrom(const std::string& bytes, const char* field);
absl::StatusOr<Tier> TierFrom(v1::Tier tier, const char* field);
absl::StatusOr<NodeId> NodeIdFrom(const std::string& text, const char* field);
// Returns the address, which is "host:port" of 255 bytes at most; an IPv6 host stands in brackets.
absl::StatusOr<std::string> AddressFrom(const std::string& address, const char* field);
// Milliseconds above kMaxTimeout are refused, not cut.
absl::StatusOr<absl::Duration> TimeoutFrom(uint32_t timeout_ms, const char* field);
absl::StatusOr<std::vector<NamedDelta>> DeltasFrom(
    const google::protobuf::RepeatedPtrField<v1::BlockDelta>& deltas);

// Convert whole reports and their answers. Those from the wire also check the handshake's version
// (kFailedPrecondition). ToWire REQUIRES: the limits above are kept.
absl::StatusOr<Report> ReportFrom(const v1::ReportRequest& request);
absl::StatusOr<ReportReply> ReportReplyFrom(const v1::ReportResponse& response);
v1::ReportRequest ToWire(const Report& report, const std::string& build);
v1::ReportResponse ToWire(const ReportReply& reply, const std::string& build);

// LocateQueryFrom() also checks the handshake's version (kFailedPrecondition).
absl::StatusOr<LocateQuery> LocateQueryFrom(const v1::LocateRequest& request);
v1::LocateRequest ToWire(const LocateQuery& query, const std::string& build);
absl::StatusOr<LocateReply> LocateReplyFrom(const v1::LocateResponse& response);
v1::LocateResponse ToWire(const LocateReply& reply);

v1::SpaceSpec ToWire(const SpaceSpec& space);
v1::Tier ToWire(Tier tier);
v1::ReuseHint ToWire(const ReuseHint& hint);
v1::BlockDelta ToWire(const NamedDelta& delta);
v1::TierUsage ToWire(const TierUsage& usage);
std::string ToWire(const BlockKey& key);        // 16 bytes.
std::string ToWire(const PeerName& name);       // 16 bytes.
std::string ToWire(const SpaceDigest& digest);  // 32 bytes.
// Rounds up, so that a positive duration never becomes 0, and cuts at kMaxTimeout.
uint32_t ToMilliseconds(absl::Duration duration);

// Proof of a payload, as a peer states it.
using WireProof = BlockProof;
absl::StatusOr<WireProof> ProofFrom(const v1::BlockProof& proof);
v1::BlockProof ToWire(const WireProof& proof);

// Returns the gRPC status with the same code, which is the same number, and the same text.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace kvtier::convert

#endif  // KVTIER_PROTO_CONVERT_H_
