// Tests share groups of real agents and workers: public system prompts that several tenants read
// and only named ones write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/session_key.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/blocks.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrompt = {.first = 100, .count = 8};
constexpr char kGroup[] = "prompts";
constexpr char kAlphaSecret[] = "alpha's secret, 16 bytes or more";
constexpr char kBetaSecret[] = "beta's secret, which is different";
constexpr char kGammaSecret[] = "gamma's secret, and another yet";
constexpr char kGroupSecret[] = "the prompts' own secret, unshared";

constexpr absl::Duration kSettleTimeout = absl::Seconds(20);

// Alpha writes the group's blocks, beta reads them, gamma is no member.
class ShareGroupsTest : public ::testing::Test {
 protected:
  AgentProcess& Start(Flags more = {}) {
    const std::string settings = absl::StrCat(secrets_, ".settings");
    std::ofstream(settings) << "prompts members=alpha:write,beta:read\n";
    more.insert({{"tenants_dir", secrets_}, {"tenant_settings", settings}});
    return *(agent_ = &cluster_.StartAgent("node-a", more));
  }
  TestWorkerOptions Of(const std::string& tenant, const std::string& secret) const {
    return {.socket_dir = agent_->socket_dir(),
            .tenant = tenant,
            .secret = secret,
            .group = kGroup,
            .tenant_seed = 9};
  }
  TestWorkerOptions Alpha() const { return Of("alpha", kAlphaSecret); }
  TestWorkerOptions Beta() const { return Of("beta", kBetaSecret); }

  // Returns what the agent answers to a session in a group.
  std::optional<wire::Welcome> Welcomed(const std::string& tenant, const std::string& secret,
                                        const std::string& group) {
    RawSession session(agent_->socket_dir());
    wire::Hello hello = session.GoodHello(tenant, secret);
    group.copy(hello.group.data(), hello.group.size());
    return session.Say(hello);
  }
  grpc::Status Set(const std::string& member, v1::GroupAccess access) {
    const auto stub = v1::AgentAdmin::NewStub(
        grpc::CreateChannel(agent_->admin_address(), grpc::InsecureChannelCredentials()));
    v1::SetTenantRequest request;
    request.mutable_settings()->set_name(kGroup);
    v1::GroupMember* const changed = request.mutable_settings()->add_members();
    changed->set_tenant(member);
    changed->set_access(access);
    grpc::ClientContext context;
    v1::SetTenantResponse response;
    return stub->SetTenant(&context, request, &response);
  }

  ProcessCluster cluster_;
  const std::string secrets_ = cluster_.WriteTenants({{"alpha", kAlphaSecret},
                                                      {"beta", kBetaSecret},
                                                      {"gamma", kGammaSecret},
                                                      {kGroup, kGroupSecret}});
  AgentProcess* agent_ = nullptr;
};

TEST_F(ShareGroupsTest, WhatAWriterPutsTheMembersReadAndFindInTheirTable) {
  Start();
  TestWorker alpha(Alpha());
  TestWorker beta(Beta());
  TestWorker another(Beta());
  ASSERT_EQ(alpha.Put(kPrompt), kPrompt.count);
  EXPECT_THAT(beta.Get(kPrompt), SizeIs(kPrompt.count));
  EXPECT_THAT(another.Get(kPrompt), SizeIs(kPrompt.count));
  EXPECT_EQ(*beta.client().ResidentRun(beta.space(), beta.KeysOf(kPrompt)), kPrompt.count)
      << "it names the group's blocks";
  EXPECT_EQ(beta.client().Match(beta.space(), beta.KeysOf(kPrompt))->blocks, kPrompt.count);
  EXPECT_EQ(*beta.client().Prefetch(beta.space(), beta.KeysOf(kPrompt)), kPrompt.count);
  TestWorkerOptions own = Alpha();
  own.group.clear();
  TestWorker alone(own);
  EXPECT_THAT(alone.Get(kPrompt), IsEmpty()) << "the writer has none of it for itself";
}

TEST_F(ShareGroupsTest, AReadersClientPutsNothingAndGoesOnReading) {
  Start();
  TestWorker alpha(Alpha());
  TestWorker beta(Beta());
  ASSERT_EQ(alpha.Put(kPrompt), kPrompt.count);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(beta.Put({500, 4}), 0);
  EXPECT_THAT(beta.client().Stats().last_error,
              HasSubstr("tenant 'beta' may only read the blocks of share group 'prompts'"));
  EXPECT_EQ(beta.client().Stats().breaker, "closed");
  EXPECT_EQ(beta.client().Stats().sessions, 1);
  EXPECT_THAT(beta.Get(kPrompt), SizeIs(kPrompt.count));
  EXPECT_EQ(alpha.Put({500, 4}), 4) << "nothing of it is pending";
}

TEST_F(ShareGroupsTest, WhatAMemberReadsIsVoidOnceItIsNoMember) {
  Start();
  TestWorker alpha(Alpha());
  TestWorker beta(Beta());
  ASSERT_EQ(alpha.Put(kPrompt), kPrompt.count);
  const OnboardedBlocks held = beta.Hold(kPrompt);
  ASSERT_TRUE(held.valid());
  ASSERT_TRUE(Set("beta", v1::GROUP_ACCESS_NONE).ok());
  EXPECT_FALSE(held.valid());
  EXPECT_THAT(beta.Get(kPrompt), IsEmpty());
  EXPECT_THAT(alpha.Get(kPrompt), SizeIs(kPrompt.count));
}

// Fixture with a reader of the group that sends raw packets and RPCs.
class RawReaderTest : public ShareGroupsTest {
 protected:
  void Open(Flags more = {}) {
    Start(std::move(more));
    alpha_ = std::make_unique<TestWorker>(Alpha());
    ASSERT_EQ(alpha_->Put(kPrompt), kPrompt.count);
    session_ = std::make_unique<RawSession>(agent_->socket_dir());
    wire::Hello hello = session_->GoodHello("beta", kBetaSecret);
    absl::string_view(kGroup).copy(hello.group.data(), hello.group.size());
    const auto welcome = session_->Say(hello);
    ASSERT_TRUE(welcome.has_value() && welcome->code == wire::WelcomeCode::kOk);
    welcome_ = *welcome;
    stub_ = v1::Worker::NewStub(grpc::CreateChannel(
        absl::StrCat("unix:", agent_->socket_dir(), "/", wire::kControlSocketName),
        grpc::InsecureChannelCredentials()));
    v1::RegisterSpaceRequest request;
    request.set_session_token(TokenText(welcome_));
    *request.mutable_space() = convert::ToWire(alpha_->spec());
    v1::RegisterSpaceResponse response;
    ASSERT_TRUE(Call(&v1::Worker::Stub::RegisterSpace, request, &response).ok());
    space_id_ = response.space_id();
  }
  template <typename Method, typename Request, typename Response>
  grpc::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    return (stub_.get()->*method)(&context, request, response);
  }
  template <typename Request>
  Request RequestOf() const {
    Request request;
    request.set_session_token(TokenText(welcome_));
    v1::Sequence* const sequence = request.add_sequences();
    sequence->set_space_id(space_id_);
    for (const EngineKey& key : alpha_->KeysOf(kPrompt)) AddWireKey(key.bytes(), sequence);
    return request;
  }
  template <typename Method, typename Request, typename Response>
  void ExpectRefused(Method method, const Request& request, Response response) {
    const grpc::Status status = Call(method, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("kvtier tenants set prompts --write beta"));
  }

  std::unique_ptr<TestWorker> alpha_;
  std::unique_ptr<RawSession> session_;
  std::unique_ptr<v1::Worker::Stub> stub_;
  wire::Welcome welcome_;
  uint32_t space_id_ = 0;
};

TEST_F(RawReaderTest, IsRefusedEveryCallThatWrites) {
  Open();
  EXPECT_EQ(welcome_.may_write, 0);
  using Stub = v1::Worker::Stub;
  ExpectRefused(&Stub::Reserve, RequestOf<v1::ReserveRequest>(), v1::ReserveResponse());
  v1::KeepRequest keep = RequestOf<v1::KeepRequest>();
  keep.set_ttl_ms(1000);
  ExpectRefused(&Stub::Keep, keep, v1::KeepResponse());
  ExpectRefused(&Stub::Advise, RequestOf<v1::AdviseRequest>(), v1::AdviseResponse());
  ExpectRefused(&Stub::Delete, RequestOf<v1::DeleteRequest>(), v1::DeleteResponse());
  v1::CommitRequest commit;
  commit.set_session_token(TokenText(welcome_));
  ExpectRefused(&Stub::Commit, commit, v1::CommitResponse());
  v1::EndKeptRequest end;
  end.set_session_token(TokenText(welcome_));
  ExpectRefused(&Stub::EndKept, end, v1::EndKeptResponse());
  v1::MatchResponse matched;
  ASSERT_TRUE(Call(&Stub::Match, RequestOf<v1::MatchRequest>(), &matched).ok());
  EXPECT_EQ(matched.sequences(0).local_blocks(), kPrompt.count) << "all of it is there still";
}

TEST_F(RawReaderTest, IsHandedNoMemoryToWrite) {
  Open();
  const auto code = [&](wire::DescriptorKind kind) { return session_->Ask({.kind = kind})->code; };
  EXPECT_EQ(code(wire::DescriptorKind::kArenaRead), wire::DescriptorCode::kOk);
  EXPECT_EQ(code(wire::DescriptorKind::kResidency), wire::DescriptorCode::kOk);
  for (const wire::DescriptorKind kind :
       {wire::DescriptorKind::kArenaWrite, wire::DescriptorKind::kStaging,
        wire::DescriptorKind::kGpuPool, wire::DescriptorKind::kSignalPage}) {
    EXPECT_EQ(code(kind), wire::DescriptorCode::kNotAvailable) << static_cast<uint32_t>(kind);
  }
}

TEST_F(RawReaderTest, HasNoStagingRegionEither) {
  Open({{"worker_memory", "staged"}, {"staging_bytes", "1MiB"}});
  for (const wire::DescriptorKind kind :
       {wire::DescriptorKind::kArenaWrite, wire::DescriptorKind::kStaging}) {
    EXPECT_EQ(session_->Ask({.kind = kind})->code, wire::DescriptorCode::kNotAvailable);
  }
}

// A removed member keeps what it has mapped, but is hung up on: it gets no more descriptors and no
// answers.
TEST_F(RawReaderTest, IsHandedNothingOnceItIsNoMember) {
  Open();
  ASSERT_TRUE(Set("beta", v1::GROUP_ACCESS_NONE).ok());
  EXPECT_FALSE(session_->Ask({.kind = wire::DescriptorKind::kArenaRead}).has_value());
  v1::MatchResponse matched;
  EXPECT_EQ(Call(&v1::Worker::Stub::Match, RequestOf<v1::MatchRequest>(), &matched).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

// Otherwise a reader could open a session as the group with the key that names the group's blocks.
TEST_F(RawReaderTest, TheKeyThatItIsToldDoesNotProveTheGroup) {
  Open();
  EXPECT_EQ(welcome_.group_key, TenantKey::FromSecret(kGroupSecret).bytes);
  RawSession session(agent_->socket_dir());
  wire::Hello hello = session.GoodHello(kGroup, kGroupSecret);
  hello.proof =
      wire::SessionProof(SessionKey{.bytes = welcome_.group_key}, session.challenge().nonce);
  EXPECT_EQ(session.Say(hello)->code, wire::WelcomeCode::kUnknownTenant);
}

TEST_F(ShareGroupsTest, WhoIsNoMemberIsToldWhatAnUnknownTenantIs) {
  Start();
  const auto unknown = Welcomed("nobody", "a secret that nobody has", "");
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->code, wire::WelcomeCode::kUnknownTenant);
  const auto same = [&](const std::optional<wire::Welcome>& welcome) {
    return welcome.has_value() && std::memcmp(&*welcome, &*unknown, sizeof(*unknown)) == 0;
  };
  EXPECT_TRUE(same(Welcomed("gamma", kGammaSecret, kGroup))) << "no member";
  EXPECT_TRUE(same(Welcomed("gamma", kGammaSecret, "nothing"))) << "no such group";
  EXPECT_TRUE(same(Welcomed("gamma", kGammaSecret, "alpha"))) << "no share group";
  EXPECT_TRUE(same(Welcomed("nobody", kGammaSecret, kGroup))) << "no such tenant";
  EXPECT_TRUE(same(Welcomed("beta", kGammaSecret, kGroup))) << "a wrong proof";
  EXPECT_TRUE(same(Welcomed("beta", kGroupSecret, kGroup))) << "the group's secret";
  const auto own = Welcomed("gamma", kGammaSecret, "");
  EXPECT_EQ(own->code, wire::WelcomeCode::kOk);
  EXPECT_EQ(own->may_write, 1);
  EXPECT_EQ(own->group_key, (decltype(own->group_key)())) << "it works on its own blocks";
}

TEST_F(ShareGroupsTest, MembersComeAndGoWhileTheirWorkersRun) {
  Start();
  TestWorker alpha(Alpha());
  TestWorker beta(Beta());
  ASSERT_EQ(alpha.Put(kPrompt), kPrompt.count);
  ASSERT_THAT(beta.Get(kPrompt), SizeIs(kPrompt.count));
  ASSERT_TRUE(Set("beta", v1::GROUP_ACCESS_NONE).ok());
  EXPECT_TRUE(Await(kSettleTimeout,
                    [&] { return beta.Get(kPrompt).empty() && !beta.client().connected(); }));
  ASSERT_TRUE(Set("beta", v1::GROUP_ACCESS_READ).ok());
  EXPECT_TRUE(Await(kSettleTimeout, [&] { return beta.Get(kPrompt).size() == kPrompt.count; }));
  ASSERT_TRUE(Set("beta", v1::GROUP_ACCESS_WRITE).ok());
  EXPECT_TRUE(Await(kSettleTimeout, [&] { return beta.Put({500, 4}) == 4; }))
      << "its next session may write";
  EXPECT_THAT(alpha.Get({500, 4}), SizeIs(4));
}

}  // namespace
}  // namespace kvtier::testing
