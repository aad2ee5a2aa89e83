#include "cli/space_findings.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

v1::SpaceSpec Space() {
  v1::SpaceSpec space;
  space.set_model("llama");
  space.set_weights_digest("w1");
  space.set_dtype("bfloat16");
  space.set_layout("layer,kv,token,head,dim");
  space.set_layers(32);
  space.set_kv_heads(8);
  space.set_head_dim(128);
  space.set_tokens_per_block(16);
  space.set_tensor_size(1);
  space.set_pipeline_size(1);
  space.set_block_bytes(2097152);
  return space;
}

v1::RegisteredSpace* Add(const v1::SpaceSpec& space, uint32_t sessions,
                         v1::DescribeSharingResponse* sharing) {
  v1::RegisteredSpace* const added = sharing->add_spaces();
  *added->mutable_space() = space;
  added->set_space_digest(std::string(32, static_cast<char>(0xa0 + sharing->spaces_size())));
  added->set_tenant("default");
  added->set_sessions(sessions);
  return added;
}

// Returns the findings that warn or fail.
Findings Troubles(const v1::DescribeSharingResponse& sharing,
                  const v1::AgentStatusResponse& status = {}) {
  Findings troubles;
  for (const Finding& finding : SpaceFindings(sharing, status)) {
    if (finding.health != Health::kOk) troubles.push_back(finding);
  }
  return troubles;
}

using Change = std::function<void(v1::SpaceSpec*)>;

const std::vector<std::pair<std::string, Change>>& EveryField() {
  static const auto* const fields = new std::vector<std::pair<std::string, Change>>{
      {"model", [](v1::SpaceSpec* s) { s->set_model("other"); }},
      {"weights_digest", [](v1::SpaceSpec* s) { s->set_weights_digest("w2"); }},
      {"lora", [](v1::SpaceSpec* s) { s->set_lora("adapter"); }},
      {"dtype", [](v1::SpaceSpec* s) { s->set_dtype("float16"); }},
      {"layout", [](v1::SpaceSpec* s) { s->set_layout("token,layer"); }},
      {"layers", [](v1::SpaceSpec* s) { s->set_layers(31); }},
      {"kv_heads", [](v1::SpaceSpec* s) { s->set_kv_heads(4); }},
      {"head_dim", [](v1::SpaceSpec* s) { s->set_head_dim(64); }},
      {"tokens_per_block", [](v1::SpaceSpec* s) { s->set_tokens_per_block(32); }},
      {"tensor_size", [](v1::SpaceSpec* s) { s->set_tensor_size(2); }},
      {"pipeline_size", [](v1::SpaceSpec* s) { s->set_pipeline_size(2); }},
      {"block_bytes", [](v1::SpaceSpec* s) { s->set_block_bytes(4096); }},
      {"codec", [](v1::SpaceSpec* s) { s->set_codec("int8"); }},
      {"any_length", [](v1::SpaceSpec* s) { s->set_any_length(true); }},
  };
  return *fields;
}

TEST(SpaceFindings, EachFieldThatDiffersIsNamedWithBothValuesAndWhatToDo) {
  for (const auto& [name, change] : EveryField()) {
    if (name == "lora") continue;  // See the tests below.
    v1::DescribeSharingResponse sharing;
    v1::SpaceSpec other = Space();
    change(&other);
    Add(Space(), 1, &sharing);
    Add(other, 1, &sharing);
    const Findings troubles = Troubles(sharing);
    ASSERT_THAT(troubles, SizeIs(1)) << name;
    EXPECT_EQ(troubles[0].health, Health::kWarn);
    EXPECT_THAT(troubles[0].detail, HasSubstr("do not share: " + name + " is ")) << name;
    EXPECT_THAT(troubles[0].remedy, HasSubstr(name + ": ")) << name;
    EXPECT_THAT(DifferingFields(Space(), other), ElementsAre(name));
  }
}

TEST(SpaceFindings, BothSpacesAreNamedByDigestTenantAndSessions) {
  v1::DescribeSharingResponse sharing;
  v1::SpaceSpec other = Space();
  other.set_tokens_per_block(32);
  Add(Space(), 3, &sharing);
  Add(other, 1, &sharing);
  EXPECT_EQ(Troubles(sharing)[0].detail,
            "space a1a1a1a1 of tenant default (3 sessions) and space a2a2a2a2 of tenant default "
            "(1 session) do not share: tokens_per_block is 16 and 32");
  EXPECT_EQ(Troubles(sharing)[0].remedy,
            "tokens_per_block: the same --block-size (page size, chunk size)");
}

TEST(SpaceFindings, SeveralFieldsAreAllNamed) {
  v1::DescribeSharingResponse sharing;
  v1::SpaceSpec other = Space();
  other.set_dtype("float8");
  other.set_block_bytes(1048576);
  Add(Space(), 1, &sharing);
  Add(other, 1, &sharing);
  EXPECT_THAT(
      Troubles(sharing)[0].detail,
      HasSubstr("dtype is \"bfloat16\" and \"float8\"; block_bytes is 2097152 and 1048576"));
}

TEST(SpaceFindings, AnotherAdapterIsNoTrouble) {
  v1::DescribeSharingResponse sharing;
  v1::SpaceSpec other = Space();
  other.set_lora("adapter");
  Add(Space(), 1, &sharing);
  Add(other, 1, &sharing);
  EXPECT_THAT(Troubles(sharing), IsEmpty());
  EXPECT_THAT(SpaceFindings(sharing, {})[2].detail, HasSubstr("lora is"));
}

TEST(SpaceFindings, RanksOfOneEngineAreOneSpace) {
  v1::DescribeSharingResponse sharing;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    v1::SpaceSpec shard = Space();
    shard.set_tensor_size(2);
    shard.set_tensor_rank(rank);
    Add(shard, 1, &sharing);
  }
  EXPECT_THAT(Troubles(sharing), IsEmpty());
  EXPECT_THAT(SpaceFindings(sharing, {})[0].detail,
              AllOf(HasSubstr("2 sessions"), HasSubstr("2 shards"), HasSubstr("nobody else")));
}

TEST(SpaceFindings, EachShardHasItsWholeDigestAndItsRanks) {
  v1::DescribeSharingResponse sharing;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    v1::SpaceSpec shard = Space();
    shard.set_tensor_size(2);
    shard.set_tensor_rank(rank);
    Add(shard, 1, &sharing);
  }
  const std::vector<SpaceOfFinding> spaces = SpaceFindings(sharing, {})[0].spaces;
  ASSERT_THAT(spaces, SizeIs(2));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(spaces[rank].digest,
              absl::BytesToHexString(sharing.spaces(static_cast<int>(rank)).space_digest()));
    EXPECT_THAT(spaces[rank].digest, SizeIs(64));
    EXPECT_EQ(spaces[rank].tensor_rank, rank);
  }
}

TEST(SpaceFindings, OneSpaceOfTwoTenantsIsTheTenants) {
  v1::DescribeSharingResponse sharing;
  Add(Space(), 1, &sharing);
  Add(Space(), 1, &sharing)->set_tenant("acme");
  const Findings troubles = Troubles(sharing);
  ASSERT_THAT(troubles, SizeIs(1));
  EXPECT_THAT(troubles[0].detail, HasSubstr("tenant is default and acme"));
}

TEST(SpaceFindings, ACodecThatIsNotSentIsRaw) {
  v1::SpaceSpec raw = Space();
  raw.set_codec("raw");
  EXPECT_THAT(DifferingFields(Space(), raw), IsEmpty());
}

TEST(SpaceFindings, ASpaceIsComparedWithItsNearestAndNotWithAnotherModels) {
  v1::DescribeSharingResponse sharing;
  v1::SpaceSpec far = Space();
  far.set_dtype("float16");
  far.set_layers(16);
  v1::SpaceSpec near = Space();
  near.set_layers(16);
  v1::SpaceSpec stranger = Space();
  stranger.set_model("qwen");
  stranger.set_weights_digest("q");
  Add(Space(), 1, &sharing);
  Add(far, 1, &sharing);
  Add(stranger, 1, &sharing);
  Add(near, 1, &sharing);
  const Findings troubles = Troubles(sharing);
  ASSERT_THAT(troubles, SizeIs(2));
  EXPECT_THAT(troubles[1].detail, AllOf(HasSubstr("layers"), Not(HasSubstr("dtype"))));
}

TEST(SpaceFindings, WhatMostWorkersUseIsWhatOthersAreComparedWith) {
  v1::DescribeSharingResponse sharing;
  v1::SpaceSpec lone = Space();
  lone.set_tokens_per_block(32);
  Add(lone, 1, &sharing);
  Add(Space(), 5, &sharing);
  EXPECT_THAT(Troubles(sharing)[0].detail, HasSubstr("tokens_per_block is 16 and 32"));
}

TEST(SpaceFindings, KeysThatNeverMatchPointAtTheEnginesHashes) {
  v1::DescribeSharingResponse sharing;
  Add(Space(), 2, &sharing);
  v1::AgentStatusResponse status;
  v1::TierReport* const host = status.add_tiers();
  host->set_misses(100);
  host->set_inserts(50);
  const Findings troubles = Troubles(sharing, status);
  ASSERT_THAT(troubles, SizeIs(1));
  EXPECT_EQ(troubles[0].check, "keys");
  EXPECT_THAT(troubles[0].remedy,
              AllOf(HasSubstr("PYTHONHASHSEED"), HasSubstr("--prefix-caching-hash-algo")));
  host->set_hits(1);
  EXPECT_THAT(Troubles(sharing, status), IsEmpty());
  host->set_hits(0);
  sharing.mutable_spaces(0)->set_sessions(1);
  EXPECT_THAT(Troubles(sharing, status), IsEmpty()) << "there is nobody to share with";
}

TEST(SpaceFindings, NoSpaceAndSpacesThatAreNotShownWarn) {
  v1::DescribeSharingResponse sharing;
  ASSERT_THAT(Troubles(sharing), SizeIs(1));
  EXPECT_THAT(Troubles(sharing)[0].detail, HasSubstr("no worker has registered one"));
  Add(Space(), 1, &sharing);
  sharing.set_forgotten_spaces(7);
  ASSERT_THAT(Troubles(sharing), SizeIs(1));
  EXPECT_THAT(Troubles(sharing)[0].detail, HasSubstr("7 registrations"));
}

}  // namespace
}  // namespace kvtier::cli
