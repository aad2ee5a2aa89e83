// Tests that each refusal of convert names the field and the value; each limit is tried at the
// limit and one beyond.
#include "proto/convert.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/layout_digest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/next_version.h"
#include "tests/testing/unknown_fields.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::convert {
namespace {

using ::testing::HasSubstr;

// Expects the code, and each of `texts` in the message.
void ExpectRefused(const absl::Status& status, const std::vector<std::string>& texts,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& text : texts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

google::protobuf::RepeatedPtrField<std::string> Repeat(size_t count, const std::string& value) {
  google::protobuf::RepeatedPtrField<std::string> values;
  for (size_t i = 0; i < count; ++i) *values.Add() = value;
  return values;
}

v1::ProtocolVersion Version(uint32_t min_version, uint32_t version) {
  v1::ProtocolVersion wire;
  wire.set_min_version(min_version);
  wire.set_version(version);
  wire.set_build("kvtier-agent 9.9");
  return wire;
}

TEST(Version, OursIsUnderstoodByUs) {
  const v1::ProtocolVersion ours = OurVersion("kvtier-test 1");
  EXPECT_EQ(ours.build(), "kvtier-test 1");
  EXPECT_TRUE(CheckVersion(ours).ok());
}

TEST(Version, ANewerProgramThatStillSpeaksOursIsWelcome) {
  EXPECT_TRUE(CheckVersion(testing::NextProtocol()).ok());
  v1::ProtocolVersion theirs = testing::NextProtocol(0);
  EXPECT_TRUE(CheckVersion(theirs).ok());
  theirs.set_min_version(2);
  EXPECT_FALSE(CheckVersion(theirs).ok());
}

TEST(Version, AnotherLayoutOfTheSameVersionIsRefusedAndBothAreNamed) {
  v1::ProtocolVersion theirs = OurVersion("kvtier-agent 9.9");
  theirs.set_layouts(0, 0xabc);
  const std::string ours = wire::LayoutText(wire::LayoutDigest(kProtocolVersion));
  ExpectRefused(CheckVersion(theirs), {"kvtier-agent 9.9", "protocol 1 as 0000000000000abc", ours},
                absl::StatusCode::kFailedPrecondition);
  theirs.clear_layouts();
  ExpectRefused(CheckVersion(theirs), {"0000000000000000", ours},
                absl::StatusCode::kFailedPrecondition);
}

TEST(Version, AMismatchNamesBothRangesAndTheBuild) {
  ExpectRefused(CheckVersion(Version(2, 3)), {"kvtier-agent 9.9", "2 to 3", "1 to 1"},
                absl::StatusCode::kFailedPrecondition);
  // The cases are an older version, no version at all, and a range upside down.
  for (const v1::ProtocolVersion& theirs : {Version(0, 0), v1::ProtocolVersion(), Version(1, 0)}) {
    ExpectRefused(CheckVersion(theirs), {"version"}, absl::StatusCode::kFailedPrecondition);
  }
}

TEST(PeerNames, GoThereAndBack) {
  const PeerName name{.hi = 0x0123456789abcdef, .lo = 42};
  EXPECT_EQ(ToWire(name).size(), 16);
  EXPECT_EQ(*PeerNameFrom(ToWire(name), "peer_name"), name);
}

TEST(PeerNames, RefusesAnyOtherLengthAndMoreThanTheLimit) {
  ExpectRefused(PeerNameFrom(std::string(15, 'n'), "peer_name").status(), {"peer_name", "15"});
  ExpectRefused(PeerNamesFrom(Repeat(1, std::string(17, 'n')), "peer_names").status(),
                {"peer_names[0]", "17"});
  const std::string name(16, 'n');
  EXPECT_TRUE(PeerNamesFrom(Repeat(kMaxKeysPerRequest, name), "peer_names").ok());
  ExpectRefused(PeerNamesFrom(Repeat(kMaxKeysPerRequest + 1, name), "peer_names").status(),
                {"peer_names", "8193"});
}

TEST(Space, GoesThereAndBack) {
  SpaceSpec space = kvtier::testing::TestSpace(1 << 20);
  space.lora = "adapter";
  space.tensor_rank = 3;
  space.tensor_size = 4;
  space.pipeline_rank = 1;
  space.pipeline_size = 2;
  const auto parsed = SpaceFrom(ToWire(space));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Digest(), space.Digest());  // The digest is over every field.
}

TEST(Space, CodecGoesThereAndBack) {
  SpaceSpec space = kvtier::testing::TestSpace(640);
  space.dtype = "bfloat16";
  space.layout = "layer,kv,token,head,dim";
  space.layers = space.kv_heads = 1;
  space.head_dim = space.tokens_per_block = 16;
  space.codec = "int8";
  const auto parsed = SpaceFrom(ToWire(space));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->codec, "int8");
  EXPECT_EQ(parsed->Digest(), space.Digest());
}

// A raw space must look the same to programs that know no codecs, and their spaces must look the
// same to us.
TEST(Space, WithoutACodecOnTheWireIsRaw) {
  const SpaceSpec space = kvtier::testing::TestSpace(1 << 20);
  const v1::SpaceSpec wire = ToWire(space);
  EXPECT_EQ(wire.codec(), "");
  EXPECT_EQ(SpaceFrom(wire)->codec, "raw");
  EXPECT_EQ(SpaceFrom(wire)->Digest(), space.Digest());
}

TEST(Space, OfAnyLengthGoesThereAndBack) {
  const SpaceSpec space = kvtier::testing::AnyLengthSpace(1 << 20);
  EXPECT_TRUE(SpaceFrom(ToWire(space))->any_length);
  EXPECT_EQ(SpaceFrom(ToWire(space))->Digest(), space.Digest());
  v1::SpaceSpec encoded = ToWire(space);
  encoded.set_codec("int8");
  ExpectRefused(SpaceFrom(encoded).status(), {"any_length", "true", "int8"});
}

TEST(Lengths, AreOneForEachKeyWhereBlocksHaveTheirOwn) {
  const BlockLengths allowed{.longest = 4096, .any = true};
  v1::Sequence sequence;
  EXPECT_TRUE(CheckLengths(sequence, allowed).ok());
  for (int i = 0; i < 4; ++i) kvtier::testing::AddWireKey("12345678", &sequence);
  for (const uint64_t length : {1, 4096, 100}) sequence.add_lengths(length);
  ExpectRefused(CheckLengths(sequence, allowed), {"lengths", "3", "4 engine_keys"});
  sequence.add_lengths(1);
  EXPECT_TRUE(CheckLengths(sequence, allowed).ok());
  sequence.set_lengths(2, 0);
  ExpectRefused(CheckLengths(sequence, allowed), {"lengths[2]: 0", "1 to 4096"});
  sequence.set_lengths(2, 4097);
  ExpectRefused(CheckLengths(sequence, allowed), {"lengths[2]: 4097", "1 to 4096"});
}

TEST(ReuseHints, GoThereAndBack) {
  const ReuseHint hint{.conversation = ~uint64_t{0},
                       .turn = 0,
                       .finish = FinishReason::kCancelled,
                       .will_not_return = true,
                       .priority = 0};
  v1::Sequence sequence;
  *sequence.mutable_reuse_hint() = ToWire(hint);
  EXPECT_EQ(*ReuseHintFrom(sequence), hint);
  for (const FinishReason finish :
       {FinishReason::kUnknown, FinishReason::kStop, FinishReason::kToolCalls,
        FinishReason::kLength, FinishReason::kCancelled}) {
    *sequence.mutable_reuse_hint() = ToWire(ReuseHint{.finish = finish});
    EXPECT_EQ(ReuseHintFrom(sequence)->finish, finish);
  }
}

TEST(ReuseHints, OfNothingTakeNoBytesAndAreTheDefault) {
  EXPECT_EQ(ToWire(ReuseHint()).ByteSizeLong(), 0u);
  EXPECT_EQ(*ReuseHintFrom(v1::Sequence()), ReuseHint());
  v1::Sequence sequence;
  sequence.mutable_reuse_hint();
  EXPECT_EQ(*ReuseHintFrom(sequence), ReuseHint());
  kvtier::testing::AddUnknownFields(sequence.mutable_reuse_hint());
  EXPECT_EQ(*ReuseHintFrom(sequence), ReuseHint());
}

TEST(ReuseHints, RefusesWhatIsOneBeyond) {
  v1::Sequence sequence;
  v1::ReuseHint* const hint = sequence.mutable_reuse_hint();
  hint->set_turn(~uint32_t{0});
  hint->set_priority(kMaxPriority);
  EXPECT_EQ(ReuseHintFrom(sequence)->priority, kMaxPriority);
  hint->set_priority(kMaxPriority + 1);
  ExpectRefused(ReuseHintFrom(sequence).status(), {"reuse_hint.priority: 101", "0 to 100"});
  hint->set_priority(~uint32_t{0});
  ExpectRefused(ReuseHintFrom(sequence).status(), {"reuse_hint.priority: 4294967295"});
  hint->clear_priority();
  for (const int finish : {5, -1}) {
    hint->set_finish(static_cast<v1::FinishReason>(finish));
    ExpectRefused(ReuseHintFrom(sequence).status(), {"reuse_hint.finish: ", "0 to 4"});
  }
}

TEST(Lengths, AreNoneWhereBlocksAreOfOneLength) {
  v1::Sequence sequence;
  kvtier::testing::AddWireKey("12345678", &sequence);
  EXPECT_TRUE(CheckLengths(sequence, {.longest = 4096}).ok());
  sequence.add_lengths(4096);
  ExpectRefused(CheckLengths(sequence, {.longest = 4096}), {"lengths", "must be none"});
}

TEST(Space, RefusesWhatCoreRefuses) {
  SpaceSpec space = kvtier::testing::TestSpace(1 << 20);
  space.block_bytes = kMaxBlockBytes + 1;
  ExpectRefused(SpaceFrom(ToWire(space)).status(), {"block_bytes", "67108865"});
}

TEST(SpaceDigest, GoesThereAndBackAndRefusesAnotherLength) {
  const SpaceDigest digest = kvtier::testing::TestSpace(4096).Digest();
  EXPECT_EQ(*SpaceDigestFrom(ToWire(digest), "space_digest"), digest);
  ExpectRefused(SpaceDigestFrom(std::string(31, 'd'), "space_digest").status(),
                {"space_digest", "31"});
}

TEST(TierValue, GoesThereAndBackAndRefusesTheRest) {
  for (const Tier tier : kAllTiers) EXPECT_EQ(*TierFrom(ToWire(tier), "target"), tier);
  ExpectRefused(TierFrom(v1::TIER_UNSPECIFIED, "target").status(), {"target", "0"});
  ExpectRefused(TierFrom(static_cast<v1::Tier>(4), "target").status(), {"target", "4"});
}

TEST(NodeName, NamesItsField) {
  EXPECT_EQ(NodeIdFrom("node-1", "node_id")->str(), "node-1");
  ExpectRefused(NodeIdFrom("", "node_id").status(), {"node_id"});
  ExpectRefused(NodeIdFrom("-a\n", "node_id").status(), {"node_id", "-a\\n"});
}

TEST(Address, AcceptsNamesAndBothFamilies) {
  for (const char* address : {"node-1:7301", "10.0.0.1:1", "[fe80::1]:65535"}) {
    EXPECT_EQ(*AddressFrom(address, "address"), address);
  }
  const std::string longest = std::string(kMaxAddressBytes - 5, 'h') + ":7301";
  EXPECT_TRUE(AddressFrom(longest, "address").ok());
  ExpectRefused(AddressFrom("h" + longest, "address").status(), {"address", "256 bytes"});
}

TEST(Address, RefusesWhatCannotBeDialled) {
  for (const char* address :
       {"", ":", ":7301", "host", "host:", "host:0", "host:65536", "host:-1", "host:+1", "host: 1",
        "host:1 ", "fe80::1:7301", "[]:1", "a b:1", "a\n:1"}) {
    ExpectRefused(AddressFrom(address, "address").status(), {"address"});
  }
}

TEST(Timeout, AcceptsTheLongestAndRefusesOneMillisecondMore) {
  EXPECT_EQ(*TimeoutFrom(0, "timeout_ms"), absl::ZeroDuration());
  EXPECT_EQ(*TimeoutFrom(60000, "timeout_ms"), kMaxTimeout);
  ExpectRefused(TimeoutFrom(60001, "timeout_ms").status(), {"timeout_ms", "60001", "60000"});
}

TEST(Timeout, RoundsUpAndIsCutAtTheLimits) {
  EXPECT_EQ(ToMilliseconds(absl::Nanoseconds(1)), 1);
  EXPECT_EQ(ToMilliseconds(absl::Microseconds(1001)), 2);
  EXPECT_EQ(ToMilliseconds(absl::Milliseconds(5)), 5);
  EXPECT_EQ(ToMilliseconds(-absl::Seconds(1)), 0);
  EXPECT_EQ(ToMilliseconds(absl::InfiniteDuration()), 60000);
}

class ProofTest : public ::testing::Test {
 protected:
  WireProof proof_{.space = kvtier::testing::TestSpace(4096).Digest(),
                   .length = 4096,
                   .sum = {.hi = 1, .lo = 2},
                   .parent = PeerName{.hi = 4, .lo = 5},
                   .mac = {6, 7, 8}};
};

TEST_F(ProofTest, GoesThereAndBack) {
  const auto parsed = ProofFrom(ToWire(proof_));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->space, proof_.space);
  EXPECT_EQ(parsed->length, proof_.length);
  EXPECT_EQ(parsed->sum, proof_.sum);
  EXPECT_EQ(parsed->mac, proof_.mac);
  EXPECT_EQ(parsed->parent, proof_.parent);
  proof_.parent.reset();
  EXPECT_FALSE(ProofFrom(ToWire(proof_))->parent.has_value());
}

TEST_F(ProofTest, RefusesALengthOutsideABlock) {
  proof_.length = kMaxBlockBytes;
  EXPECT_TRUE(ProofFrom(ToWire(proof_)).ok());
  proof_.length = kMaxBlockBytes + 1;
  ExpectRefused(ProofFrom(ToWire(proof_)).status(), {"proof.length", "67108865"});
  proof_.length = 0;
  ExpectRefused(ProofFrom(ToWire(proof_)).status(), {"proof.length", "0"});
}

TEST_F(ProofTest, RefusesAMissingOrMalformedPart) {
  v1::BlockProof wire = ToWire(proof_);
  wire.clear_sum();
  ExpectRefused(ProofFrom(wire).status(), {"proof.sum"});
  wire = ToWire(proof_);
  wire.set_space_digest("short");
  ExpectRefused(ProofFrom(wire).status(), {"proof.space_digest", "5"});
  wire = ToWire(proof_);
  wire.set_parent_name("short");
  ExpectRefused(ProofFrom(wire).status(), {"proof.parent_name", "5"});
  wire = ToWire(proof_);
  wire.clear_mac();
  ExpectRefused(ProofFrom(wire).status(), {"proof.mac", "0 bytes", "16"});
}

TEST(Codes, TravelUnchangedWithTheirText) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

// A relay of version N-1 must not drop what version N says (rule of common.proto).
TEST(UnknownFields, SurviveAParseAndASerialise) {
  v1::ReportRequest newer;
  newer.set_node_id("node-1");
  testing::AddUnknownFields(&newer);
  v1::ReportRequest relayed;
  ASSERT_TRUE(relayed.ParseFromString(newer.SerializeAsString()));
  EXPECT_EQ(relayed.node_id(), "node-1");
  EXPECT_THAT(relayed.SerializeAsString(), HasSubstr(testing::kUnknownText));
  EXPECT_EQ(relayed.SerializeAsString(), newer.SerializeAsString());
}

}  // namespace
}  // namespace kvtier::convert
