// Tests what a former member of a share group can do over TCP with what it was told as a member:
// the key that names the group's blocks, and so every BlockKey.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/peer_namer.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "kvtier/v1/coordinator.grpc.pb.h"
#include "kvtier/v1/peer.grpc.pb.h"
#include "proto/convert.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/fake_peer.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrompt = {.first = 100, .count = 4};
constexpr Blocks kUnknown = {.first = 500, .count = 4};
constexpr char kGroup[] = "prompts";
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";
constexpr char kGroupSecret[] = "the prompts' own secret, unshared";

// Alpha writes the group's blocks on two nodes. Beta was a reader, and was removed.
class RemovedMemberTest : public ::testing::Test {
 protected:
  RemovedMemberTest() {
    std::ofstream(settings_) << "prompts members=alpha:write,beta:read\n";
    coordinator_ = &cluster_.StartCoordinator();
    const Flags flags = {{"tenants_dir", secrets_}, {"tenant_settings", settings_}};
    agent_ = &cluster_.StartAgent("node-a", flags);
    asker_ = &cluster_.StartAgent("node-b", flags);
    alpha_ = std::make_unique<TestWorker>(Alpha(*agent_));
    EXPECT_EQ(alpha_->Put(kPrompt), kPrompt.count);
    EXPECT_TRUE(coordinator_->AwaitHolders(agents_.NameOf(Keys(kPrompt).back()), 1));
    RawSession session(agent_->socket_dir());
    wire::Hello hello = session.GoodHello("beta", kBetaSecret);
    absl::string_view(kGroup).copy(hello.group.data(), hello.group.size());
    told_ = PeerKey{.bytes = session.Say(hello)->group_key};
    EXPECT_EQ(told_.bytes, TenantKey::FromSecret(kGroupSecret).bytes);
    Remove(*agent_, "beta");
    Remove(*asker_, "beta");
  }
  TestWorkerOptions Alpha(const AgentProcess& agent) const {
    return {.socket_dir = agent.socket_dir(),
            .tenant = "alpha",
            .secret = kAlphaSecret,
            .group = kGroup,
            .tenant_seed = 9};
  }
  void Remove(const AgentProcess& agent, const std::string& member) {
    v1::SetTenantRequest request;
    request.mutable_settings()->set_name(kGroup);
    v1::GroupMember* const changed = request.mutable_settings()->add_members();
    changed->set_tenant(member);
    changed->set_access(v1::GROUP_ACCESS_NONE);
    grpc::ClientContext context;
    v1::SetTenantResponse response;
    const auto channel =
        grpc::CreateChannel(agent.admin_address(), grpc::InsecureChannelCredentials());
    EXPECT_TRUE(v1::AgentAdmin::NewStub(channel)->SetTenant(&context, request, &response).ok());
  }
  // Returns BlockKeys, as a member computes them.
  std::vector<BlockKey> Keys(Blocks blocks) const {
    const BlockNamer namer(TenantKey::FromSecret(kGroupSecret), alpha_->spec().Digest());
    std::vector<BlockKey> keys;
    for (const EngineKey& key : alpha_->KeysOf(blocks)) keys.push_back(namer.Name(key));
    return keys;
  }
  // Returns how many chunks of blocks node-a sends to a caller that names them so.
  size_t Fetched(PeerTag tag, const std::vector<PeerName>& names) {
    v1::FetchRequest request;
    *request.mutable_version() = convert::OurVersion("test");
    request.set_node_id("node-x");
    request.set_peer_tag(static_cast<uint64_t>(tag));
    request.set_timeout_ms(10'000);
    for (const PeerName& name : names) request.add_peer_names(convert::ToWire(name));
    grpc::ClientContext context;
    const auto stub = v1::Peer::NewStub(
        grpc::CreateChannel(agent_->address(), grpc::InsecureChannelCredentials()));
    const auto stream = stub->Fetch(&context, request);
    size_t chunks = 0;
    for (v1::FetchChunk chunk; stream->Read(&chunk);) ++chunks;
    EXPECT_TRUE(stream->Finish().ok());
    return chunks;
  }
  // Returns of how many of them the coordinator says who has them.
  int Located(const std::vector<PeerName>& names) {
    v1::LocateRequest request;
    *request.mutable_version() = convert::OurVersion("test");
    request.set_node_id("node-x");
    request.set_each(true);
    for (const PeerName& name : names) request.add_peer_names(convert::ToWire(name));
    grpc::ClientContext context;
    v1::LocateResponse response;
    const auto stub = v1::Coordinator::NewStub(coordinator_->channel());
    EXPECT_TRUE(stub->Locate(&context, request, &response).ok());
    int located = 0;
    for (const auto& block : response.blocks()) located += block.holders_size() > 0 ? 1 : 0;
    return located;
  }

  ProcessCluster cluster_;
  const std::string secrets_ = cluster_.WriteTenants(
      {{"alpha", kAlphaSecret}, {"beta", kBetaSecret}, {kGroup, kGroupSecret}});
  const std::string settings_ = absl::StrCat(secrets_, ".settings");
  const PeerNamer agents_{PeerKey::FromSecret(kGroupSecret)};
  CoordinatorProcess* coordinator_ = nullptr;
  AgentProcess* agent_ = nullptr;
  AgentProcess* asker_ = nullptr;
  std::unique_ptr<TestWorker> alpha_;
  PeerKey told_;  // Key that beta was told, taken for a peer key.
};

TEST_F(RemovedMemberTest, FindsAndFetchesNothingWithWhatItKnew) {
  const std::vector<BlockKey> keys = Keys(kPrompt);
  std::vector<PeerName> plain;
  for (const BlockKey& key : keys) plain.push_back({.hi = key.hi, .lo = key.lo});
  ASSERT_GE(Fetched(agents_.tag(), agents_.NamesOf(keys)), kPrompt.count) << "as a node does";
  ASSERT_EQ(Located(agents_.NamesOf(keys)), kPrompt.count);

  const PeerNamer members(told_);
  const PeerNamer beta(PeerKey::FromSecret(kBetaSecret));
  for (const PeerTag tag : {members.tag(), beta.tag(), agents_.tag()}) {
    EXPECT_EQ(Fetched(tag, plain), 0u);
    EXPECT_EQ(Fetched(tag, members.NamesOf(keys)), 0u);
    EXPECT_EQ(Fetched(tag, beta.NamesOf(keys)), 0u) << "its own secret leads to the keys";
  }
  EXPECT_EQ(Located(plain), 0);
  EXPECT_EQ(Located(members.NamesOf(keys)), 0);
  EXPECT_EQ(Located(beta.NamesOf(keys)), 0);
}

// It poses as a node. If it has seen names on the wire, it is asked for their blocks, but cannot
// prove what it sends.
TEST_F(RemovedMemberTest, SendsNothingThatANodeTakes) {
  FakePeer liar(cluster_.NextAddress());
  liar.ServeTenant(kGroupSecret);
  liar.Send(Damage::kMembersProof);
  const std::vector<BlockKey> keys = Keys(kUnknown);
  for (const BlockKey& key : keys) {
    std::vector<std::byte> payload(alpha_->spec().block_bytes, std::byte{66});
    const BlockMeta meta{.key = key,
                         .space = alpha_->spec().Digest(),
                         .length = payload.size(),
                         .sum = SumPayload(payload)};
    liar.Hold(meta, std::move(payload));
  }
  ASSERT_EQ(liar.Report(coordinator_->channel()), absl::OkStatus());
  TestWorker worker(Alpha(*asker_));
  EXPECT_THAT(worker.Get(kUnknown), IsEmpty());
  EXPECT_EQ(liar.fetches(), 1u);
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return asker_->Status().peers().verify_failures() >= 4; }));
  EXPECT_EQ(asker_->Status().peers().fetched_blocks(), 0u);
  for (const BlockKey& key : keys) EXPECT_EQ(asker_->Lookup(key).copies_size(), 0);
  EXPECT_THAT(worker.Get(kPrompt), AllOf(SizeIs(kPrompt.count), Each(BlockSource::kPeer)))
      << "an honest node's blocks come";
}

}  // namespace
}  // namespace kvtier::testing
