// Tests the limits of the wire at a real agent: a value beyond them is refused by name and value,
// and the agent goes on (law 6).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "kvtier/v1/peer.grpc.pb.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "proto/sequence_keys.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/open_peer_namer.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// agent/limits.h
constexpr size_t kMaxSessions = 1024;
constexpr size_t kMaxPeerStreamsServed = 16;

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto welcome = session_.Say(session_.GoodHello());
    ASSERT_TRUE(welcome.has_value());
    token_ = TokenText(*welcome);
    v1::RegisterSpaceRequest request;
    request.set_session_token(token_);
    *request.mutable_space() = convert::ToWire(worker_.spec());
    v1::RegisterSpaceResponse response;
    grpc::ClientContext context;
    SetCallDeadline(&context);
    ASSERT_TRUE(stub_->RegisterSpace(&context, request, &response).ok());
    space_id_ = response.space_id();
  }
  v1::MatchRequest RequestOf(size_t keys) {
    v1::MatchRequest request;
    request.set_session_token(token_);
    v1::Sequence* const sequence = request.add_sequences();
    sequence->set_space_id(space_id_);
    convert::SetEngineKeys(worker_.KeysOf({0, keys}), sequence);
    return request;
  }
  grpc::Status Match(const v1::MatchRequest& request) {
    grpc::ClientContext context;
    SetCallDeadline(&context);
    v1::MatchResponse response;
    return stub_->Match(&context, request, &response);
  }
  grpc::Status Advise(const v1::MatchRequest& as_match, v1::AdviseResponse* response) {
    v1::AdviseRequest request;
    request.set_session_token(as_match.session_token());
    *request.mutable_sequences() = as_match.sequences();
    grpc::ClientContext context;
    SetCallDeadline(&context);
    return stub_->Advise(&context, request, response);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
  TestWorker worker_{{.socket_dir = agent_.socket_dir(), .block_bytes = 4096}};
  RawSession session_{agent_.socket_dir()};
  const std::unique_ptr<v1::Worker::Stub> stub_ =
      v1::Worker::NewStub(WorkerChannel(agent_.socket_dir()));
  std::string token_;
  uint32_t space_id_ = 0;
};

TEST_F(LimitsTest, AsManyKeysAsAllowedAreTakenAndOneMoreIsRefused) {
  EXPECT_TRUE(Match(RequestOf(8192)).ok());
  const grpc::Status status = Match(RequestOf(8193));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("engine_keys"), HasSubstr("8193")));
}

TEST_F(LimitsTest, TheClientRefusesOneKeyTooManyItself) {
  const auto onboarded = worker_.client().Onboard(worker_.space(), worker_.KeysOf({0, 8193}));
  EXPECT_EQ(onboarded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(onboarded.status().message(), HasSubstr("8193"));
}

TEST_F(LimitsTest, ARunOfAsManyBlocksAsAllowedIsPutAndGotInOneCall) {
  // 8192 blocks of 4 KiB, twice what host memory holds: what there is no room for is
  // not put, and nothing fails.
  const size_t put = worker_.Put({.first = 0, .count = 8192});
  EXPECT_GT(put, 0);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_LE(worker_.Get({.first = 0, .count = 8192}).size(), put);
}

TEST_F(LimitsTest, AKeyTooShortOrTooLongIsRefusedByName) {
  for (const size_t bytes : {0, 7, 65}) {
    v1::MatchRequest request = RequestOf(1);
    AddWireKey(std::string(bytes, 'k'), request.mutable_sequences(0));
    const grpc::Status status = Match(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << bytes;
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr("engine_keys"), HasSubstr(std::to_string(bytes))));
  }
}

TEST_F(LimitsTest, AsManySequencesAsAllowedAreTakenAndOneMoreIsRefused) {
  v1::MatchRequest request = RequestOf(1);
  while (request.sequences_size() < 256) *request.add_sequences() = request.sequences(0);
  EXPECT_TRUE(Match(request).ok());
  *request.add_sequences() = request.sequences(0);
  const grpc::Status status = Match(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("sequences"), HasSubstr("257")));
  request.clear_sequences();
  EXPECT_EQ(Match(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LimitsTest, TheKeysOfAllSequencesAreBoundedTogether) {
  v1::MatchRequest request = RequestOf(8192);
  *request.add_sequences() = RequestOf(1).sequences(0);
  const grpc::Status status = Match(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("8193"));
}

TEST_F(LimitsTest, AdviceIsTakenOfAsMuchAsMatchIs) {
  ASSERT_EQ(worker_.Put({0, 2}), 2);
  v1::AdviseResponse response;
  ASSERT_TRUE(Advise(RequestOf(8192), &response).ok());
  EXPECT_EQ(response.advised_blocks(), 2);
  EXPECT_THAT(Advise(RequestOf(8193), &response).error_message(), HasSubstr("8193"));
  v1::MatchRequest request = RequestOf(1);
  while (request.sequences_size() < 256) *request.add_sequences() = request.sequences(0);
  EXPECT_TRUE(Advise(request, &response).ok());
  *request.add_sequences() = request.sequences(0);
  EXPECT_THAT(Advise(request, &response).error_message(), HasSubstr("257"));
}

TEST_F(LimitsTest, AHintThatCannotBeIsRefusedByNameAndValueInEveryCall) {
  v1::MatchRequest request = RequestOf(1);
  v1::ReuseHint* const hint = request.mutable_sequences(0)->mutable_reuse_hint();
  hint->set_priority(100);
  v1::AdviseResponse response;
  EXPECT_TRUE(Advise(request, &response).ok());
  hint->set_priority(101);
  for (const grpc::Status& status : {Advise(request, &response), Match(request)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("reuse_hint.priority: 101; must be 0 to 100"));
  }
}

TEST_F(LimitsTest, ATimeoutBeyondAMinuteIsRefusedByNameAndValue) {
  v1::MatchRequest request = RequestOf(1);
  request.set_timeout_ms(60'001);
  const grpc::Status status = Match(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("timeout_ms"), HasSubstr("60001")));
}

TEST_F(LimitsTest, AMessageAbove4MiBIsRefusedAndTheNextIsServed) {
  v1::MatchRequest request = RequestOf(1);
  request.mutable_sequences(0)->set_engine_keys(std::string(size_t{5} << 20, 'k'));
  EXPECT_EQ(Match(request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Match(RequestOf(1)).ok());
}

TEST_F(LimitsTest, AnUnknownSessionOrSpaceIsRefused) {
  v1::MatchRequest request = RequestOf(1);
  request.set_session_token(std::string(16, 'x'));
  EXPECT_EQ(Match(request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  request.set_session_token("short");
  EXPECT_EQ(Match(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request = RequestOf(1);
  request.mutable_sequences(0)->set_space_id(space_id_ + 1);
  EXPECT_EQ(Match(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LimitsTest, ASpaceWhoseBlocksAreLargerThanASlabIsRefusedByValue) {
  v1::RegisterSpaceRequest request;
  request.set_session_token(token_);
  SpaceSpec spec = worker_.spec();
  spec.block_bytes = uint64_t{2} << 20;
  *request.mutable_space() = convert::ToWire(spec);
  grpc::ClientContext context;
  SetCallDeadline(&context);
  v1::RegisterSpaceResponse response;
  const grpc::Status status = stub_->RegisterSpace(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("block_bytes"), HasSubstr(std::to_string(2 << 20))));
}

// SilentPeer asks for blocks and does not read; its stream stays open until the object is
// destroyed.
class SilentPeer {
 public:
  SilentPeer(v1::Peer::Stub* stub, const v1::FetchRequest& request) {
    SetCallDeadline(&context_);
    stream_ = stub->Fetch(&context_, request);
  }
  ~SilentPeer() { context_.TryCancel(); }
  // Reads one block; returns whether it arrived.
  bool ReadOne() {
    v1::FetchChunk chunk;
    return stream_->Read(&chunk);
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::FetchChunk>> stream_;
};

// Fixture with peers that ask for a run that is too long for the buffers of a stream.
class SilentPeersTest : public LimitsTest {
 protected:
  void SetUp() override {
    LimitsTest::SetUp();
    const Blocks run = {.first = 100, .count = 1024};
    ASSERT_EQ(worker_.Put(run), run.count);
    *request_.mutable_version() = convert::OurVersion("test");
    request_.set_node_id("node-b");
    const PeerNamer namer = OpenPeerNamer();
    request_.set_peer_tag(static_cast<uint64_t>(namer.tag()));
    for (uint64_t i = 0; i < run.count; ++i) {
      request_.add_peer_names(convert::ToWire(namer.NameOf(worker_.KeyOf(run.first + i))));
    }
    // The windows must stay small: gRPC would widen them until the whole run fits.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    peer_stub_ = v1::Peer::NewStub(
        grpc::CreateCustomChannel(agent_.address(), grpc::InsecureChannelCredentials(), arguments));
  }
  // Opens as many streams as an agent serves; reads one block of each.
  std::vector<std::unique_ptr<SilentPeer>> Ask(absl::Duration timeout) {
    request_.set_timeout_ms(convert::ToMilliseconds(timeout));
    std::vector<std::unique_ptr<SilentPeer>> peers;
    for (size_t i = 0; i < kMaxPeerStreamsServed; ++i) {
      peers.push_back(std::make_unique<SilentPeer>(peer_stub_.get(), request_));
      EXPECT_TRUE(peers.back()->ReadOne()) << i;
    }
    return peers;
  }
  bool Served() { return SilentPeer(peer_stub_.get(), request_).ReadOne(); }

  v1::FetchRequest request_;
  std::unique_ptr<v1::Peer::Stub> peer_stub_;
};

TEST_F(SilentPeersTest, BeyondTheLimitAreToldSoAndServedWhenOthersAreGone) {
  std::vector<std::unique_ptr<SilentPeer>> peers = Ask(absl::Seconds(20));
  SilentPeer one_more(peer_stub_.get(), request_);
  EXPECT_FALSE(one_more.ReadOne());
  const grpc::Status refused = one_more.Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("16"));
  EXPECT_TRUE(Match(RequestOf(1)).ok());

  peers.clear();
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return Served(); }));
}

// Once, a stream whose reader did not read ended only with its connection, and not at its deadline.
// Until then it kept its place, its block's pin and a buffer for blocks from the disk.
TEST_F(SilentPeersTest, HoldNoPlaceAndNoPinBeyondTheTimeThatTheyAskedFor) {
  const absl::Time asked = absl::Now();
  const absl::Duration timeout = Patience(absl::Seconds(2));
  const std::vector<std::unique_ptr<SilentPeer>> peers = Ask(timeout);
  EXPECT_GT(agent_.TierStatus(Tier::kHost).pinned_bytes(), 0);
  EXPECT_FALSE(Served());
  EXPECT_TRUE(Await(absl::Seconds(5), [&] { return Served(); }));
  EXPECT_GE(absl::Now() - asked, timeout);
  EXPECT_TRUE(
      Await(absl::Seconds(5), [&] { return agent_.TierStatus(Tier::kHost).pinned_bytes() == 0; }));
}

TEST_F(LimitsTest, SessionsBeyondTheLimitAreToldSoAndTheRestAreServed) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_cur < kMaxSessions + 200) GTEST_SKIP() << "too few descriptors allowed";

  std::vector<std::unique_ptr<RawSession>> sessions;
  for (size_t open = 2; open < kMaxSessions; ++open) {  // Two are open already.
    sessions.push_back(std::make_unique<RawSession>(agent_.socket_dir()));
    ASSERT_TRUE(sessions.back()->connected()) << open;
    const auto welcome = sessions.back()->Say(sessions.back()->GoodHello());
    ASSERT_TRUE(welcome.has_value() && welcome->code == wire::WelcomeCode::kOk) << open;
  }
  EXPECT_EQ(agent_.Status().sessions(), kMaxSessions);
  RawSession one_more(agent_.socket_dir());
  const auto welcome = one_more.Say(one_more.GoodHello());
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kTooManySessions);
  EXPECT_TRUE(Match(RequestOf(1)).ok());

  sessions.clear();
  RawSession later(agent_.socket_dir());
  const auto welcomed = later.Say(later.GoodHello());
  ASSERT_TRUE(welcomed.has_value());
  EXPECT_EQ(welcomed->code, wire::WelcomeCode::kOk);
}

// Once, connections without any secret made the sessions of other tenants fail.
TEST_F(LimitsTest, SilentConnectionsGiveTheirPlacesToSessions) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_cur < 2 * kMaxSessions + 300) GTEST_SKIP() << "too few descriptors allowed";

  std::vector<std::unique_ptr<RawSession>> silent;
  for (size_t i = 0; i < 2 * kMaxSessions + 100; ++i) {
    silent.push_back(std::make_unique<RawSession>(agent_.socket_dir()));
    ASSERT_TRUE(silent.back()->connected()) << i;
    if (i % 100 != 0 || i < kMaxSessions) continue;
    RawSession session(agent_.socket_dir());
    ASSERT_TRUE(session.connected()) << i;
    const auto welcome = session.Say(session.GoodHello());
    ASSERT_TRUE(welcome.has_value()) << i;
    EXPECT_EQ(welcome->code, wire::WelcomeCode::kOk) << i;
  }
}

}  // namespace
}  // namespace kvtier::testing
