// Tests the client with an agent that works.
#include "client/client.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_node.h"

namespace kvtier {
namespace {

using testing::Eventually;
using testing::FakeNode;
using testing::GetBlocks;
using testing::PutBlocks;
using testing::TestKeys;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() : node_({.slots = 16, .has_gpu_pool = true}) {
    node_.agent().Start();
    client_ = node_.OpenClient();
    space_ = *client_->RegisterSpace(node_.space());
  }

  FakeNode node_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_;
};

TEST_F(ClientTest, BlocksComeBackByteForByte) {
  const std::vector<EngineKey> keys = TestKeys(1, 8);
  EXPECT_TRUE(client_->connected());
  EXPECT_EQ(PutBlocks(client_.get(), space_, keys), 8U);
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys), 8U);
}

TEST_F(ClientTest, AnotherWorkerReadsWhatOnePut) {
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  PutBlocks(client_.get(), space_, keys);
  const std::unique_ptr<Client> other = node_.OpenClient();
  EXPECT_EQ(GetBlocks(other.get(), *other->RegisterSpace(node_.space()), keys), 3U);
}

TEST_F(ClientTest, PiecesGoInAndComeBackInOtherPieces) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  std::vector<std::byte> content(FakeNode::kBlockBytes);
  testing::FillBlock(7, keys[1], content);
  const ConstPiece from[] = {ConstPiece(content).first(7), ConstPiece(content).subspan(7)};
  ReservedBlocks reserved = *client_->Reserve(space_, keys);
  EXPECT_EQ(reserved.CopyIn(1, {from, 1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(reserved.CopyIn(1, from).ok());
  EXPECT_EQ(reserved.Commit(), 1U) << "a refused copy takes nothing";
  EXPECT_EQ(reserved.CopyIn(1, from).code(), absl::StatusCode::kInvalidArgument) << "given up";

  const OnboardedBlocks hit = *client_->Onboard(space_, {&keys[1], 1});
  ASSERT_EQ(hit.size(), 1U);
  std::vector<std::byte> copied(content.size());
  const Piece to[] = {Piece(copied).first(4000), Piece(copied).subspan(4000)};
  EXPECT_EQ(hit.CopyOut(0, {to, 1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(hit.CopyOut(0, to).ok());
  EXPECT_EQ(copied, content);
  node_.agent().Kill();
  EXPECT_TRUE(Eventually(
      [&] { return hit.CopyOut(0, to).code() == absl::StatusCode::kFailedPrecondition; }));
}

// Any worker may make a stray write after the commit.
TEST_F(ClientTest, ABlockThatChangedIsNotCopiedOutAndTheAgentIsTold) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  const OnboardedBlocks hit = *client_->Onboard(space_, keys);
  ASSERT_EQ(hit.size(), 2U);
  std::vector<std::byte> copied(FakeNode::kBlockBytes);
  const Piece to(copied);
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 1));
  std::byte* const arena = reserved.slot(0).data() - reserved.offset(0);
  arena[hit.offset(1) + 100] ^= std::byte{1};
  EXPECT_TRUE(hit.CopyOut(0, {&to, 1}).ok());
  EXPECT_EQ(hit.CopyOut(1, {&to, 1}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(client_->Stats().damaged_blocks, 1U);
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().damage_reports == 1; }));
}

TEST_F(ClientTest, AHitIsTheLeadingRun) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  PutBlocks(client_.get(), space_, TestKeys(4, 2));
  const std::vector<EngineKey> keys = TestKeys(1, 5);  // The third is missing.
  const MatchedPrefix matched = *client_->Match(space_, keys);
  EXPECT_EQ(matched.blocks, 2U);
  EXPECT_EQ(matched.local_blocks, 2U);
  EXPECT_EQ(matched.tiers, (std::vector<Tier>{Tier::kHost, Tier::kHost}));
  const OnboardedBlocks hit = *client_->Onboard(space_, keys);
  ASSERT_EQ(hit.size(), 2U);
  EXPECT_EQ(hit.bytes(0).size(), FakeNode::kBlockBytes);
  EXPECT_EQ(hit.source(0), BlockSource::kHost);
  EXPECT_TRUE(hit.valid());
}

TEST_F(ClientTest, BlocksOfAnotherSpaceAreMisses) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  SpaceSpec spec = node_.space();
  spec.weights_digest = "another epoch";
  EXPECT_TRUE(client_->Onboard(*client_->RegisterSpace(spec), keys)->empty());
}

// The agent does not know all fields. It would take the space for one that has equal values in the
// fields that it knows.
TEST(AgentOfOtherFieldsTest, ASpaceOfWhichTheAgentUnderstoodAnotherIsAMiss) {
  FakeNode node({.knows_codecs = false});
  node.agent().Start();
  const std::unique_ptr<Client> client = node.OpenClient();
  SpaceSpec spec = node.space();
  const SpaceHandle raw = *client->RegisterSpace(spec);
  spec.dtype = "bfloat16", spec.layout = "layer,kv,token,head,dim";
  spec.layers = spec.kv_heads = 1, spec.head_dim = spec.tokens_per_block = 16;
  spec.codec = "int8", spec.block_bytes = 640;
  const SpaceHandle encoded = *client->RegisterSpace(spec);
  EXPECT_EQ(client->Reserve(encoded, TestKeys(1, 1))->reserved(), 0U);
  EXPECT_NE(client->Stats().last_error.find("codec \"int8\""), std::string::npos);
  EXPECT_EQ(PutBlocks(client.get(), raw, TestKeys(1, 1)), 1U);
}

TEST(AgentOfFewSpacesTest, ASpaceThatWasRefusedIsTriedAgainOnceAnotherIsReleased) {
  FakeNode node({.most_spaces = 1});
  node.agent().Start();
  const std::unique_ptr<Client> client = node.OpenClient();
  const SpaceHandle first = *client->RegisterSpace(node.space());
  SpaceSpec spec = node.space();
  spec.lora = "another";
  const SpaceHandle second = *client->RegisterSpace(spec);
  const auto why_not = [&] { return client->Limits(second)->why_not; };
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(why_not(), "all are in use"); }));
  EXPECT_EQ(client->UnregisterSpace(first), absl::OkStatus());
  EXPECT_TRUE(Eventually([&] { return client->Limits(second)->usable; })) << why_not();
  EXPECT_EQ(PutBlocks(client.get(), second, TestKeys(1, 4)), 4U);
}

TEST_F(ClientTest, ReserveSaysWhatIsThereAlready) {
  PutBlocks(client_.get(), space_, TestKeys(1, 1));
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 2));
  ASSERT_EQ(reserved.size(), 2U);
  EXPECT_EQ(reserved.state(0), ReservedBlocks::State::kPresent);
  EXPECT_TRUE(reserved.slot(0).empty());
  EXPECT_EQ(reserved.state(1), ReservedBlocks::State::kReserved);
  EXPECT_EQ(reserved.slot(1).size(), FakeNode::kBlockBytes);
}

TEST_F(ClientTest, ReserveTellsWhatAnotherIsPuttingFromWhatIsThere) {
  const std::unique_ptr<Client> other = node_.OpenClient();
  const SpaceHandle space = *other->RegisterSpace(node_.space());
  ReservedBlocks theirs = *other->Reserve(space, TestKeys(1, 1));
  ReservedBlocks ours = *client_->Reserve(space_, TestKeys(1, 1));
  EXPECT_TRUE(ours.answered());
  EXPECT_EQ(ours.state(0), ReservedBlocks::State::kPending);
  EXPECT_EQ(ours.reserved(), 0U);
  theirs.Release();
  EXPECT_TRUE(Eventually([&] {
    return client_->Reserve(space_, TestKeys(1, 1))->state(0) == ReservedBlocks::State::kReserved;
  }));
}

TEST(ClientOfALaterAgentTest, AStateThatItDoesNotKnowIsNoPromise) {
  FakeNode node({.reserve_state = 99});
  node.agent().Start();
  const std::unique_ptr<Client> client = node.OpenClient();
  const SpaceHandle space = *client->RegisterSpace(node.space());
  const ReservedBlocks reserved = *client->Reserve(space, TestKeys(1, 2));
  EXPECT_TRUE(reserved.answered());
  EXPECT_EQ(reserved.state(0), ReservedBlocks::State::kNoRoom);
  EXPECT_EQ(reserved.reserved(), 0U);
}

TEST_F(ClientTest, ASlotGivenBackIsNotPublished) {
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 3));
  reserved.GiveBack(1);
  reserved.GiveBack(1);
  EXPECT_EQ(reserved.state(1), ReservedBlocks::State::kNoRoom);
  EXPECT_TRUE(reserved.slot(1).empty());
  EXPECT_EQ(reserved.reserved(), 2U);
  for (const size_t i : {0, 2}) testing::FillBlock(7, TestKeys(1, 3)[i], reserved.slot(i));
  EXPECT_EQ(reserved.Commit(), 2U);
  EXPECT_EQ(client_->Match(space_, TestKeys(1, 3))->blocks, 1U);
  EXPECT_EQ(client_->Match(space_, TestKeys(3, 1))->blocks, 1U);
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().reservations == 0; }));
}

// An engine that computed fewer blocks than it had reserved once published the others, too: with
// the old bytes of the slots, as hits that verify.
TEST_F(ClientTest, ASlotThatNobodyTookIsNotPublished) {
  const std::vector<EngineKey> keys = TestKeys(1, 4);
  ReservedBlocks reserved = *client_->Reserve(space_, keys);
  for (const size_t i : {0, 3}) testing::FillBlock(7, keys[i], reserved.slot(i));
  EXPECT_EQ(reserved.state(1), ReservedBlocks::State::kReserved) << "to look is not to take";
  EXPECT_EQ(reserved.Commit(), 2U);
  EXPECT_EQ(client_->Match(space_, keys)->blocks, 1U);
  EXPECT_EQ(GetBlocks(client_.get(), space_, TestKeys(4, 1)), 1U);
  EXPECT_EQ(node_.agent().Counts().reservations, 0U) << "given back by the commit";
  EXPECT_EQ(client_->Stats().committed_blocks, 2U);
  EXPECT_EQ(client_->Stats().unwritten_blocks, 2U);
}

TEST_F(ClientTest, APutOfWhichNothingWasTakenIsGivenBack) {
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 2));
  EXPECT_EQ(reserved.Commit(), 0U);
  EXPECT_EQ(client_->Match(space_, TestKeys(1, 2))->blocks, 0U);
  EXPECT_EQ(node_.agent().Counts().reservations, 0U);
}

TEST_F(ClientTest, ReserveSaysWhatFindsNoRoom) {
  const ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 17));
  EXPECT_EQ(reserved.reserved(), 16U);
  EXPECT_EQ(reserved.state(16), ReservedBlocks::State::kNoRoom);
}

TEST_F(ClientTest, CommitGivesTheSlotsUpAndTellsHowMany) {
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 2));
  for (const size_t i : {0, 1}) testing::FillBlock(7, TestKeys(1, 2)[i], reserved.slot(i));
  EXPECT_EQ(reserved.Commit(), 2U);
  EXPECT_EQ(reserved.reserved(), 0U);
  EXPECT_TRUE(reserved.slot(0).empty());
  EXPECT_EQ(reserved.state(0), ReservedBlocks::State::kReserved);
  EXPECT_EQ(reserved.Commit(), 0U);
}

TEST_F(ClientTest, AReserveMayWaitForItsTimeoutLessTheWayBack) {
  ASSERT_TRUE(client_->Reserve(space_, TestKeys(1, 1), {.timeout = absl::Milliseconds(800)}).ok());
  EXPECT_EQ(node_.agent().Counts().reserve_timeout_ms, 780U);
}

TEST_F(ClientTest, ADurableCommitTellsHowManyBlocksAreOnDisk) {
  ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(1, 3));
  for (const size_t i : {0, 1, 2}) testing::FillBlock(7, TestKeys(1, 3)[i], reserved.slot(i));
  EXPECT_EQ(reserved.Commit({.durable = true, .timeout = absl::Seconds(1)}), 2U)
      << "the fake agent's disk misses the last one";
  EXPECT_EQ(client_->Match(space_, TestKeys(1, 3))->blocks, 3U) << "published all the same";
  EXPECT_EQ(client_->Stats().committed_blocks, 3U);
}

TEST_F(ClientTest, StepsAreToldOnThePageAndNamedByACommit) {
  const uint64_t first = client_->BeginStep();
  const uint64_t second = client_->BeginStep();
  EXPECT_EQ(second, first + 1);
  ReservedBlocks reserved =
      *client_->Reserve(space_, TestKeys(1, 1), {.target = OnboardTarget::kGpu});
  EXPECT_FALSE(reserved.slot(0).empty());
  EXPECT_EQ(reserved.Commit({.step = second}), 1U);
  EXPECT_EQ(node_.agent().Counts().committed_step, second);
  EXPECT_EQ(node_.agent().Counts().begun_step, second);
  EXPECT_EQ(node_.agent().Counts().retired_step, 0U);
  client_->EndStep(first);
  EXPECT_EQ(node_.agent().Counts().retired_step, first);
  client_->EndStep(second);
  EXPECT_EQ(node_.agent().Counts().retired_step, second);
}

TEST_F(ClientTest, HostMemoryIsTheSameBytesToReadAndToWrite) {
  PutBlocks(client_.get(), space_, TestKeys(1, 1));
  const OnboardedBlocks hit = *client_->Onboard(space_, TestKeys(1, 1));
  const HostMemory memory = client_->host_memory();
  ASSERT_TRUE(memory.read != nullptr && memory.write != nullptr);
  EXPECT_EQ(hit.keep_mapped(), memory.read);
  const size_t offset = hit.bytes(0).data() - memory.read->Read(0, 1)->data();
  EXPECT_TRUE(std::ranges::equal(*memory.write->Read(offset, hit.bytes(0).size()), hit.bytes(0)));
  node_.agent().Kill();
  EXPECT_TRUE(Eventually([&] { return client_->host_memory().read == nullptr; }));
}

TEST_F(ClientTest, ThePoolsHandlesAreThereForWhoMapsThemAnotherWay) {
  const auto gpu = client_->gpu_memory();
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->max_handles, 1U);
  ASSERT_EQ(gpu->handles.size(), 1U);
  EXPECT_TRUE(gpu->handles[0].is_open());
  EXPECT_EQ(gpu->handle_bytes, gpu->mapping->size());
}

TEST_F(ClientTest, DestructorsGiveEverythingBack) {
  PutBlocks(client_.get(), space_, TestKeys(1, 4));
  {
    const OnboardedBlocks hit = *client_->Onboard(space_, TestKeys(1, 4));
    const ReservedBlocks reserved = *client_->Reserve(space_, TestKeys(9, 3));
    EXPECT_EQ(node_.agent().Counts().leases, 4U);
    EXPECT_EQ(node_.agent().Counts().reservations, 3U);
  }
  EXPECT_TRUE(Eventually([&] {
    const testing::FakeAgentCounts counts = node_.agent().Counts();
    return counts.leases == 0 && counts.reservations == 0;
  }));
}

TEST_F(ClientTest, AMovedFromLeaseIsReleasedOnce) {
  PutBlocks(client_.get(), space_, TestKeys(1, 2));
  OnboardedBlocks hit = *client_->Onboard(space_, TestKeys(1, 2));
  OnboardedBlocks taken = std::move(hit);
  hit = OnboardedBlocks();
  EXPECT_TRUE(taken.valid());
  EXPECT_EQ(node_.agent().Counts().leases, 2U);
  taken.Release();
  EXPECT_FALSE(taken.valid());
  EXPECT_TRUE(Eventually([&] { return node_.agent().Counts().leases == 0; }));
}

TEST_F(ClientTest, GpuBlocksAreReadFromThePool) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  const OnboardedBlocks hit = *client_->Onboard(space_, keys, {.target = OnboardTarget::kGpu});
  ASSERT_EQ(hit.size(), 2U);
  const OnboardedBlocks host = *client_->Onboard(space_, keys);
  EXPECT_NE(hit.bytes(0).data(), host.bytes(0).data());
  EXPECT_TRUE(std::ranges::equal(hit.bytes(0), host.bytes(0)));
}

TEST_F(ClientTest, SlotsOfAPoolThatCannotBeFollowedAreGivenBack) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  node_.agent().TellPoolVersions(2, 1);
  EXPECT_TRUE(client_->Onboard(space_, keys, {.target = OnboardTarget::kGpu})->empty());
  const ReservedBlocks none =
      *client_->Reserve(space_, TestKeys(9, 1), {.target = OnboardTarget::kGpu});
  EXPECT_EQ(none.reserved(), 0U);
  EXPECT_EQ(GetBlocks(client_.get(), space_, keys), 2U) << "host memory is as it was";
  EXPECT_TRUE(Eventually([&] {
    const testing::FakeAgentCounts counts = node_.agent().Counts();
    return counts.leases == 0 && counts.reservations == 0;
  }));
}

TEST_F(ClientTest, APoolThatChangedIsMappedAnewWhereItWas) {
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  PutBlocks(client_.get(), space_, keys);
  const auto before = client_->gpu_memory();
  EXPECT_EQ(before->version, 1U);
  node_.agent().TellPoolVersions(2, 2);
  const OnboardedBlocks hit = *client_->Onboard(space_, keys, {.target = OnboardTarget::kGpu});
  ASSERT_EQ(hit.size(), 2U);
  const OnboardedBlocks host = *client_->Onboard(space_, keys);
  EXPECT_TRUE(std::ranges::equal(hit.bytes(0), host.bytes(0)));
  const auto after = client_->gpu_memory();
  EXPECT_EQ(after->version, 2U);
  EXPECT_EQ(after->since, std::vector<uint64_t>{2});
  EXPECT_EQ(after->mapping, before->mapping);
  EXPECT_EQ(after->steps, before->steps);
}

TEST_F(ClientTest, APoolWithoutAVersionIsRefused) {
  node_.agent().Kill();
  node_.agent().Start();
  node_.agent().TellPoolVersions(0, 0);
  const auto other = node_.OpenClient();
  EXPECT_FALSE(other->connected());
  EXPECT_NE(other->Stats().last_error.find("version 0"), std::string::npos);
}

TEST_F(ClientTest, PrefetchTellsHowManyAreComing) {
  PutBlocks(client_.get(), space_, TestKeys(1, 3));
  EXPECT_EQ(*client_->Prefetch(space_, TestKeys(1, 5)), 3U);
}

TEST_F(ClientTest, ABadSpaceIsRefusedNamingTheField) {
  SpaceSpec spec = node_.space();
  spec.head_dim = 0;
  const absl::Status status = client_->RegisterSpace(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("head_dim"), absl::string_view::npos) << status;
}

TEST_F(ClientTest, TheSameSpaceIsTheSameHandle) {
  EXPECT_EQ(*client_->RegisterSpace(node_.space()), space_);
}

TEST_F(ClientTest, SpacesAreBounded) {
  SpaceSpec spec = node_.space();
  absl::Status status;
  for (int i = 0; i < 17 && status.ok(); ++i) {
    spec.weights_digest = "epoch " + std::to_string(i);
    status = client_->RegisterSpace(spec).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ClientTest, AForeignHandleAndTooManyKeysAreTheCallersBugs) {
  EXPECT_EQ(client_->Match(SpaceHandle{9}, TestKeys(1, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::vector<EngineKey> keys = TestKeys(1, Client::kMaxKeys + 1);
  EXPECT_EQ(client_->Onboard(space_, keys).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Reserve(space_, keys).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, StatsCountBlocks) {
  PutBlocks(client_.get(), space_, TestKeys(1, 3));
  GetBlocks(client_.get(), space_, TestKeys(1, 5));
  const ClientStats stats = client_->Stats();
  EXPECT_TRUE(stats.connected);
  EXPECT_EQ(stats.sessions, 1U);
  EXPECT_EQ(stats.reserved_blocks, 3U);
  EXPECT_EQ(stats.committed_blocks, 3U);
  EXPECT_EQ(stats.onboarded_blocks, 3U);
  EXPECT_EQ(stats.missed_blocks, 2U);
  EXPECT_EQ(stats.last_error, "");
}

TEST_F(ClientTest, PingIsAnswered) { EXPECT_TRUE(client_->Ping(absl::Seconds(1)).ok()); }

TEST(ClientOptionsTest, OpenNamesTheFieldThatIsWrong) {
  ClientOptions options;
  EXPECT_NE(Client::Open(options).status().message().find("socket_dir"), absl::string_view::npos);
  options.socket_dir = std::string(100, 'x');
  EXPECT_NE(Client::Open(options).status().message().find("socket_dir"), absl::string_view::npos);
  options.socket_dir = "/nowhere";
  options.tenant = std::string(64, 't');
  EXPECT_NE(Client::Open(options).status().message().find("tenant"), absl::string_view::npos);
  options.tenant = "acme";
  options.group = std::string(64, 'g');
  EXPECT_NE(Client::Open(options).status().message().find("group has 64"), absl::string_view::npos);
  options.group = "acme";
  EXPECT_NE(Client::Open(options).status().message().find("group is \"acme\", the tenant itself"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace kvtier
