#include "core/peer_namer.h"

#include <functional>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr char kSecret[] = "a secret of sixteen bytes or more";

PeerNamer Namer() { return PeerNamer(PeerKey::FromSecret(kSecret)); }
// Returns the namer that a member of a share group can make from the key that it is told.
PeerNamer MembersNamer() {
  return PeerNamer(PeerKey{.bytes = TenantKey::FromSecret(kSecret).bytes});
}

BlockMeta SomeMeta() {
  BlockMeta meta{
      .key = NumberedKey(1), .parent = NumberedKey(2), .length = 4096, .sum = {.hi = 3, .lo = 4}};
  meta.space.bytes.fill(5);
  return meta;
}

TEST(PeerNamerTest, NamesAreNoKeysAndLeadBackToThem) {
  const PeerNamer namer = Namer();
  const PeerNamer another_agents = Namer();
  std::vector<BlockKey> keys;
  for (uint64_t i = 0; i < 300; ++i) keys.push_back(NumberedKey(i));
  const std::vector<PeerName> names = namer.NamesOf(keys);
  EXPECT_EQ(another_agents.KeysOf(names), keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(namer.NameOf(keys[i]), names[i]) << "alone and among others";
    EXPECT_EQ(another_agents.KeyOf(names[i]), keys[i]);
    EXPECT_NE(names[i].ToBytes(), keys[i].ToBytes());
  }
  EXPECT_TRUE(namer.NamesOf({}).empty());
}

// Known answers: Python's hmac, and the openssl program.
TEST(PeerNamerTest, HasTheKnownAnswers) {
  const PeerNamer namer = Namer();
  EXPECT_EQ(static_cast<uint64_t>(namer.tag()), 0x15f6208010c8297bu);
  EXPECT_EQ(namer.NameOf({.hi = 1, .lo = 2}), (PeerName{0x882e37fb781d2716, 0x3e16a729f7da0673}));
  const PeerMac mac = namer.Prove({.key = {.hi = 1, .lo = 2}, .length = 3}).mac;
  EXPECT_EQ(mac, (PeerMac{0x52, 0x94, 0x8c, 0xec, 0x91, 0xad, 0x52, 0x8b, 0xe3, 0x93, 0x46, 0xb8,
                          0xb1, 0x44, 0xf6, 0xc6}));
}

TEST(PeerNamerTest, TheKeyThatMembersAreToldMakesOtherNamesTagsAndProofs) {
  const PeerNamer agents = Namer();
  const PeerNamer members = MembersNamer();
  EXPECT_NE(agents.tag(), members.tag());
  EXPECT_NE(agents.NameOf(NumberedKey(1)), members.NameOf(NumberedKey(1)));
  EXPECT_NE(agents.KeyOf(members.NameOf(NumberedKey(1))), NumberedKey(1));
  EXPECT_FALSE(agents.Check(SomeMeta().key, members.Prove(SomeMeta())).has_value());
}

TEST(PeerNamerTest, AProofSaysAllThatItsSenderSaid) {
  BlockMeta meta = SomeMeta();
  EXPECT_EQ(Namer().Check(meta.key, Namer().Prove(meta)), meta);
  meta.parent.reset();
  EXPECT_EQ(Namer().Check(meta.key, Namer().Prove(meta)), meta) << "a root";
}

TEST(PeerNamerTest, AProofBindsEachOfItsFields) {
  const PeerNamer namer = Namer();
  const std::vector<std::function<void(BlockMeta*, BlockProof*)>> changes = {
      [](BlockMeta* meta, BlockProof*) { meta->key.hi ^= 1; },
      [](BlockMeta* meta, BlockProof*) { meta->key.lo ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->space.bytes[0] ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->space.bytes[31] ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->length ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->parent->hi ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->parent->lo ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->parent.reset(); },
      [](BlockMeta*, BlockProof* proof) { proof->sum.hi ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->sum.lo ^= 1; },
      [](BlockMeta*, BlockProof* proof) { std::swap(proof->sum.hi, proof->sum.lo); },
      [](BlockMeta*, BlockProof* proof) { proof->mac.front() ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->mac.back() ^= 1; },
      [](BlockMeta*, BlockProof* proof) { proof->mac = {}; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    BlockMeta asked = SomeMeta();
    BlockProof proof = namer.Prove(asked);
    changes[i](&asked, &proof);
    EXPECT_FALSE(namer.Check(asked.key, proof).has_value()) << i;
  }
  // No parent is another than a parent of zeros.
  BlockMeta root = SomeMeta();
  root.parent.reset();
  BlockProof proof = namer.Prove(root);
  proof.parent = namer.NameOf(BlockKey());
  EXPECT_FALSE(namer.Check(root.key, proof).has_value());
}

TEST(PeerName, RefusesBytesOfAnotherLengthAndNamesIt) {
  const PeerName name{.hi = 1, .lo = 2};
  const auto bytes = name.ToBytes();
  EXPECT_EQ(*PeerName::FromBytes({reinterpret_cast<const char*>(bytes.data()), 16}), name);
  for (const size_t size : {0, 15, 17}) {
    const absl::Status refused = PeerName::FromBytes(std::string(size, 'n')).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr(std::to_string(size) + " bytes"));
  }
}

}  // namespace
}  // namespace kvtier
