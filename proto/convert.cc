#include "proto/convert.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/address.h"
#include "core/status_macros.h"
#include "proto/layout_digest.h"
#include "proto/sequence_keys.h"

namespace kvtier::convert {
namespace {

// The numbers are those of the wire.
static_assert(static_cast<int>(FinishReason::kStop) == v1::FINISH_REASON_STOP);
static_assert(static_cast<int>(FinishReason::kToolCalls) == v1::FINISH_REASON_TOOL_CALLS);
static_assert(static_cast<int>(FinishReason::kLength) == v1::FINISH_REASON_LENGTH);
static_assert(static_cast<int>(FinishReason::kCancelled) == v1::FINISH_REASON_CANCELLED);

// Returns core's error with the name of the field that caused it.
absl::Status InField(const absl::Status& status, absl::string_view field) {
  return absl::Status(status.code(), absl::StrCat(field, ": ", status.message()));
}

absl::Status CheckCount(size_t count, size_t limit, const char* field) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; must be at most ", limit));
}

template <size_t kSize>
std::string BytesOf(const std::array<uint8_t, kSize>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

v1::ProtocolVersion OurVersion(const std::string& build) {
  v1::ProtocolVersion version;
  version.set_version(kProtocolVersion);
  version.set_min_version(kMinProtocolVersion);
  version.set_build(build);
  for (uint32_t spoken = kMinProtocolVersion; spoken <= kProtocolVersion; ++spoken) {
    version.add_layouts(wire::LayoutDigest(spoken));
  }
  return version;
}

absl::Status CheckVersion(const v1::ProtocolVersion& theirs) {
  const uint32_t oldest = theirs.min_version();
  const uint32_t newest = theirs.version();
  constexpr size_t kMaxBuildShown = 64;
  const std::string build = absl::CHexEscape(theirs.build().substr(0, kMaxBuildShown));
  if (oldest > newest || newest < kMinProtocolVersion || oldest > kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version: \"", build, "\" speaks protocol ", oldest, " to ", newest, ", this program ",
        kMinProtocolVersion, " to ", kProtocolVersion, "; update the older of the two"));
  }
  const uint32_t spoken = std::min(newest, kProtocolVersion);
  const auto place = static_cast<int>(spoken - oldest);
  const uint64_t layout = place < theirs.layouts_size() ? theirs.layouts(place) : 0;
  if (layout == wire::LayoutDigest(spoken)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "version: \"", build, "\" lays out protocol ", spoken, " as ", wire::LayoutText(layout),
      ", this program as ", wire::LayoutText(wire::LayoutDigest(spoken)),
      "; build both from the same sources"));
}

absl::Status CheckSequences(const google::protobuf::RepeatedPtrField<v1::Sequence>& sequences) {
  if (sequences.empty() || static_cast<size_t>(sequences.size()) > kMaxSequencesPerRequest) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: ", sequences.size(), "; must be 1 to ", kMaxSequencesPerRequest));
  }
  size_t keys = 0;
  for (const v1::Sequence& sequence : sequences) {
    keys += CountEngineKeys(sequence);
  }
  if (keys > kMaxKeysPerRequest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequences: ", keys, " engine_keys in all; must be at most ", kMaxKeysPerRequest));
  }
  return absl::OkStatus();
}

absl::Status CheckIdCount(int count, const char* field) {
  return CheckCount(static_cast<size_t>(count), kMaxIdsPerRequest, field);
}

absl::Status CheckLengths(const v1::Sequence& sequence, const BlockLengths& allowed) {
  const int lengths = sequence.lengths_size();
  const size_t keys = CountEngineKeys(sequence);
  if (static_cast<size_t>(lengths) != (allowed.any ? keys : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lengths: ", lengths, " for ", keys, " engine_keys; ",
        allowed.any ? "must be one for each" : "must be none, the space has blocks of one length"));
  }
  for (int i = 0; i < lengths; ++i) {
    if (allowed.Allow(sequence.lengths(i))) continue;
    return absl::InvalidArgumentError(absl::StrCat("lengths[", i, "]: ", sequence.lengths(i),
                                                   "; must be 1 to ", allowed.longest));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReuseHint> ReuseHintFrom(const v1::Sequence& sequence) {
  const v1::ReuseHint& wire = sequence.reuse_hint();
  ReuseHint hint{.conversation = wire.conversation(), .will_not_return = wire.will_not_return()};
  if (wire.has_turn()) hint.turn = wire.turn();
  if (!v1::FinishReason_IsValid(wire.finish())) {  // Open enum: a newer client may send any number.
    return absl::InvalidArgumentError(
        absl::StrCat("reuse_hint.finish: ", static_cast<int>(wire.finish()), "; must be 0 to ",
                     static_cast<int>(FinishReason::kCancelled)));
  }
  hint.finish = static_cast<FinishReason>(wire.finish());
  if (wire.has_priority()) {
    if (wire.priority() > kMaxPriority) {
      return absl::InvalidArgumentError(
          absl::StrCat("reuse_hint.priority: ", wire.priority(), "; must be 0 to ", kMaxPriority));
    }
    hint.priority = static_cast<uint8_t>(wire.priority());
  }
  return hint;
}

absl::StatusOr<PeerName> PeerNameFrom(const std::string& name, const char* field) {
  absl::StatusOr<PeerName> parsed = PeerName::FromBytes(name);
  if (!parsed.ok()) return InField(parsed.status(), field);
  return parsed;
}

absl::StatusOr<std::vector<PeerName>> PeerNamesFrom(
    const google::protobuf::RepeatedPtrField<std::string>& names, const char* field) {
  KVT_RETURN_IF_ERROR(CheckCount(names.size(), kMaxKeysPerRequest, field));
  std::vector<PeerName> parsed;
  parsed.reserve(names.size());
  for (const std::string& bytes : names) {
    const absl::StatusOr<PeerName> name = PeerName::FromBytes(bytes);
    if (!name.ok()) return InField(name.status(), absl::StrCat(field, "[", parsed.size(), "]"));
    parsed.push_back(*name);
  }
  return parsed;
}

absl::StatusOr<SpaceSpec> SpaceFrom(const v1::SpaceSpec& space) {
  SpaceSpec spec{.model = space.model(),
                 .weights_digest = space.weights_digest(),
                 .lora = space.lora(),
                 .dtype = space.dtype(),
                 .layout = space.layout(),
                 .layers = space.layers(),
                 .kv_heads = space.kv_heads(),
                 .head_dim = space.head_dim(),
                 .tokens_per_block = space.tokens_per_block(),
                 .tensor_rank = space.tensor_rank(),
                 .tensor_size = space.tensor_size(),
                 .pipeline_rank = space.pipeline_rank(),
                 .pipeline_size = space.pipeline_size(),
                 .block_bytes = space.block_bytes()};
  if (!space.codec().empty()) spec.codec = space.codec();
  spec.any_length = space.any_length();
  KVT_RETURN_IF_ERROR(spec.Validate());
  return spec;
}

absl::StatusOr<SpaceDigest> SpaceDigestFrom(const std::string& bytes, const char* field) {
  SpaceDigest digest;
  if (bytes.size() != digest.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": space digest of ", bytes.size(),
                                                   " bytes; must be ", digest.bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

absl::StatusOr<Tier> TierFrom(v1::Tier tier, const char* field) {
  switch (tier) {
    case v1::TIER_GPU:
      return Tier::kGpu;
    case v1::TIER_HOST:
      return Tier::kHost;
    case v1::TIER_DISK:
      return Tier::kDisk;
    default:  // Open enum: a newer peer may send any number.
      return absl::InvalidArgumentError(
          absl::StrCat(field, " is ", static_cast<int>(tier), "; must be 1 to 3"));
  }
}

absl::StatusOr<NodeId> NodeIdFrom(const std::string& text, const char* field) {
  absl::StatusOr<NodeId> id = NodeId::FromString(text);
  if (!id.ok()) return InField(id.status(), field);
  return id;
}

absl::StatusOr<std::string> AddressFrom(const std::string& address, const char* field) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return InField(parsed.status(), field);
  if (parsed->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is \"", address, "\"; must have a port"));
  }
  return address;
}

absl::StatusOr<absl::Duration> TimeoutFrom(uint32_t timeout_ms, const char* field) {
  const absl::Duration timeout = absl::Milliseconds(timeout_ms);
  if (timeout > kMaxTimeout) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", timeout_ms,
                                                   " ms; must be at most ",
                                                   absl::ToInt64Milliseconds(kMaxTimeout)));
  }
  return timeout;
}

v1::ReuseHint ToWire(const ReuseHint& hint) {
  v1::ReuseHint wire;
  wire.set_conversation(hint.conversation);
  if (hint.turn) wire.set_turn(*hint.turn);
  wire.set_finish(static_cast<v1::FinishReason>(hint.finish));
  wire.set_will_not_return(hint.will_not_return);
  if (hint.priority != kDefaultPriority) wire.set_priority(hint.priority);
  return wire;
}

v1::SpaceSpec ToWire(const SpaceSpec& space) {
  v1::SpaceSpec wire;
  wire.set_model(space.model);
  wire.set_weights_digest(space.weights_digest);
  wire.set_lora(space.lora);
  wire.set_dtype(space.dtype);
  wire.set_layout(space.layout);
  wire.set_layers(space.layers);
  wire.set_kv_heads(space.kv_heads);
  wire.set_head_dim(space.head_dim);
  wire.set_tokens_per_block(space.tokens_per_block);
  wire.set_tensor_rank(space.tensor_rank);
  wire.set_tensor_size(space.tensor_size);
  wire.set_pipeline_rank(space.pipeline_rank);
  wire.set_pipeline_size(space.pipeline_size);
  wire.set_block_bytes(space.block_bytes);
  if (space.codec != kRawCodec) wire.set_codec(space.codec);
  wire.set_any_length(space.any_length);
  return wire;
}

v1::Tier ToWire(Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return v1::TIER_GPU;
    case Tier::kHost:
      return v1::TIER_HOST;
    case Tier::kDisk:
      return v1::TIER_DISK;
  }
  return v1::TIER_UNSPECIFIED;
}

std::string ToWire(const BlockKey& key) { return BytesOf(key.ToBytes()); }

std::string ToWire(const PeerName& name) { return BytesOf(name.ToBytes()); }

std::string ToWire(const SpaceDigest& digest) { return BytesOf(digest.bytes); }

uint32_t ToMilliseconds(absl::Duration duration) {
  const absl::Duration cut = std::clamp(duration, absl::ZeroDuration(), kMaxTimeout);
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(absl::Ceil(cut, absl::Milliseconds(1))));
}

absl::StatusOr<WireProof> ProofFrom(const v1::BlockProof& proof) {
  WireProof parsed;
  KVT_ASSIGN_OR_RETURN(parsed.space, SpaceDigestFrom(proof.space_digest(), "proof.space_digest"));
  if (proof.length() == 0 || proof.length() > kMaxBlockBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("proof.length is ", proof.length(), "; must be 1 to ", kMaxBlockBytes));
  }
  if (!proof.has_sum()) return absl::InvalidArgumentError("proof.sum is missing; must be given");
  parsed.length = proof.length();
  parsed.sum = {.hi = proof.sum().hi(), .lo = proof.sum().lo()};
  if (!proof.parent_name().empty()) {
    KVT_ASSIGN_OR_RETURN(parsed.parent, PeerNameFrom(proof.parent_name(), "proof.parent_name"));
  }
  if (proof.mac().size() != parsed.mac.size()) {
    return absl::InvalidArgumentError(absl::StrCat("proof.mac has ", proof.mac().size(),
                                                   " bytes; must have ", parsed.mac.size()));
  }
  std::copy(proof.mac().begin(), proof.mac().end(), parsed.mac.begin());
  return parsed;
}

v1::BlockProof ToWire(const WireProof& proof) {
  v1::BlockProof wire;
  wire.set_space_digest(ToWire(proof.space));
  wire.set_length(proof.length);
  wire.mutable_sum()->set_hi(proof.sum.hi);
  wire.mutable_sum()->set_lo(proof.sum.lo);
  if (proof.parent.has_value()) wire.set_parent_name(ToWire(*proof.parent));
  wire.set_mac(BytesOf(proof.mac));
  return wire;
}

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace kvtier::convert
