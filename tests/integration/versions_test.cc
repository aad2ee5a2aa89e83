// Tests that version 2 talks to this build in version 1, with unknown fields; and that versions
// without overlap, and builds with different layouts of one version, refuse each other and name
// both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/checksum.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "kvtier/v1/coordinator.grpc.pb.h"
#include "kvtier/v1/peer.grpc.pb.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "proto/layout_digest.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/blocks.h"
#include "tests/testing/next_version.h"
#include "tests/testing/open_peer_namer.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/unknown_fields.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VersionsTest : public ::testing::Test {
 protected:
  // Registers a space and reserves a block of it.
  void ReserveOne(const std::string& token) {
    const auto stub = v1::Worker::NewStub(WorkerChannel(agent_.socket_dir()));
    v1::RegisterSpaceRequest space;
    space.set_session_token(token);
    *space.mutable_space() = convert::ToWire(TestSpace(4096));
    v1::RegisterSpaceResponse registered;
    grpc::ClientContext first;
    SetCallDeadline(&first);
    ASSERT_TRUE(stub->RegisterSpace(&first, space, &registered).ok());
    v1::ReserveRequest request;
    request.set_session_token(token);
    request.add_sequences()->set_space_id(registered.space_id());
    AddWireKey("a key of some bytes", request.mutable_sequences(0));
    request.set_target(v1::TIER_HOST);
    v1::ReserveResponse response;
    grpc::ClientContext second;
    SetCallDeadline(&second);
    ASSERT_TRUE(stub->Reserve(&second, request, &response).ok());
    ASSERT_EQ(response.blocks(0).state(), v1::ReservedBlock::RESERVED);
  }
  ProcessCluster cluster_;
  CoordinatorProcess& coordinator_ = cluster_.StartCoordinator();
  AgentProcess& agent_ = cluster_.StartAgent("node-a");
};

TEST_F(VersionsTest, ASessionOfTheNextVersionIsOpenedInOurs) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.version = kNextVersion;
  const auto welcome = session.Say(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kOk);
  EXPECT_EQ(agent_.Status().sessions(), 1);
  const auto reply = session.Ask(wire::DescriptorRequest{.kind = wire::DescriptorKind::kArenaRead});
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code, wire::DescriptorCode::kOk);
}

TEST_F(VersionsTest, ASessionWithNoVersionInCommonIsRefusedLoudly) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.version = hello.min_version = kNextVersion;
  const auto welcome = session.Say(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kVersionMismatch);
  EXPECT_EQ(welcome->version, 1);
  EXPECT_EQ(welcome->min_version, 1);
  EXPECT_EQ(agent_.Status().sessions(), 0);
  EXPECT_THAT(agent_.LogText(),
              HasSubstr("the worker speaks session versions 2 to 2, this agent 1 to 1"));
}

TEST_F(VersionsTest, ASessionOfAnotherLayoutIsRefusedAndBothAreNamed) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.layout ^= 1;
  const auto welcome = session.Say(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kLayoutMismatch);
  EXPECT_EQ(welcome->layout, wire::LayoutDigest(1));
  EXPECT_EQ(agent_.Status().sessions(), 0);
  EXPECT_THAT(agent_.LogText(), AllOf(HasSubstr(wire::LayoutText(hello.layout)),
                                      HasSubstr(wire::LayoutText(welcome->layout))));
}

// The worker has no lifeline, so the agent cannot know when the worker's writes are over.
TEST_F(VersionsTest, WhatAWorkerWithoutALifelineReservedStaysTakenAsLongAsItLives) {
  {
    RawSession session(agent_.socket_dir());
    const auto welcome = session.Say(session.GoodHello());
    ASSERT_TRUE(welcome.has_value());
    ReserveOne(TokenText(*welcome));
  }
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return agent_.Status().sessions() == 0; }));
  EXPECT_GT(agent_.TierStatus(Tier::kHost).late_bytes(), 0);
}

TEST(PoolVersionsTest, AWorkerIsToldTheVersionOfThePoolAndOfEachHandle) {
  constexpr uint64_t kHandle = uint64_t{2} << 20;
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent("node-a", {{"gpu_bytes", "2MiB"},
                                                      {"gpu_max_bytes", "8MiB"},
                                                      {"gpu_block_bytes", "64KiB"},
                                                      {"device", "emulated"}});
  RawSession session(agent.socket_dir());
  ASSERT_EQ(session.Say(session.GoodHello())->code, wire::WelcomeCode::kOk);
  wire::DescriptorRequest request{.kind = wire::DescriptorKind::kGpuPool};
  const auto before = session.Ask(request);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->handles, 1);
  EXPECT_GT(before->version, 0);
  EXPECT_EQ(before->since, before->version);
  ASSERT_EQ(agent.ResizeGpu(2 * kHandle)->bytes(), 2 * kHandle);
  request.index = 1;
  const auto after = session.Ask(request);
  ASSERT_TRUE(after.has_value());
  EXPECT_GT(after->version, before->version);
  EXPECT_EQ(after->since, after->version);
}

class ReportVersionsTest : public VersionsTest {
 protected:
  ReportVersionsTest() {
    report_.set_node_id("node-of-tomorrow");
    report_.set_node_epoch(1);
    report_.set_address("127.0.0.1:1");
  }
  grpc::Status Report() {
    grpc::ClientContext context;
    SetCallDeadline(&context);
    return v1::Coordinator::NewStub(coordinator_.channel())->Report(&context, report_, &response_);
  }
  v1::ReportRequest report_;
  v1::ReportResponse response_;
};

TEST_F(ReportVersionsTest, AReportOfTheNextVersionIsTakenWithItsUnknownFields) {
  *report_.mutable_version() = NextProtocol();
  report_.set_snapshot_begin(true);
  report_.set_snapshot_end(true);
  v1::BlockDelta* delta = report_.add_deltas();
  delta->set_kind(v1::BlockDelta::ADD);
  delta->set_tier(v1::TIER_HOST);
  delta->set_peer_name(std::string(16, 'n'));
  AddUnknownFields(delta);
  AddUnknownFields(&report_);
  const grpc::Status status = Report();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response_.version().version(), 1);
  EXPECT_EQ(coordinator_.Holders(*PeerName::FromBytes(std::string(16, 'n'))), 1);
}

TEST_F(ReportVersionsTest, AReportWithNoVersionInCommonIsRefusedWithBothRanges) {
  *report_.mutable_version() = NextProtocol(kNextVersion);
  const grpc::Status status = Report();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("2 to 2"), HasSubstr("1 to 1")));
}

TEST_F(ReportVersionsTest, AReportOfAnotherLayoutIsRefusedAndBothAreNamed) {
  *report_.mutable_version() = NextProtocol();
  report_.mutable_version()->set_layouts(0, 0x1111);
  const grpc::Status status = Report();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("0000000000001111"),
                                            HasSubstr(wire::LayoutText(wire::LayoutDigest(1)))));
}

class PeerVersionsTest : public VersionsTest {
 protected:
  // Fetches block 100 as another node would. Puts the chunks that came into `chunks`.
  grpc::Status Fetch(const v1::ProtocolVersion& version, std::vector<v1::FetchChunk>* chunks) {
    EXPECT_EQ(worker_.Put({.first = 100, .count = 1}), 1);
    v1::FetchRequest request;
    *request.mutable_version() = version;
    request.set_node_id("node-of-tomorrow");
    request.set_peer_tag(static_cast<uint64_t>(namer_.tag()));
    request.add_peer_names(convert::ToWire(namer_.NameOf(worker_.KeyOf(100))));
    request.set_timeout_ms(10'000);
    AddUnknownFields(&request);
    grpc::ClientContext context;
    SetCallDeadline(&context);
    const auto stub = v1::Peer::NewStub(
        grpc::CreateChannel(agent_.address(), grpc::InsecureChannelCredentials()));
    const auto stream = stub->Fetch(&context, request);
    v1::FetchChunk chunk;
    while (stream->Read(&chunk)) chunks->push_back(chunk);
    return stream->Finish();
  }
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  const PeerNamer namer_ = OpenPeerNamer();
};

TEST_F(PeerVersionsTest, AFetchOfTheNextVersionGetsItsBlockWithProof) {
  std::vector<v1::FetchChunk> chunks;
  const grpc::Status status = Fetch(NextProtocol(), &chunks);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(chunks.size(), 1);
  const auto proof = convert::ProofFrom(chunks[0].proof());
  ASSERT_TRUE(proof.ok());
  const auto meta = namer_.Check(worker_.KeyOf(100), *proof);
  ASSERT_TRUE(meta.has_value());
  EXPECT_EQ(meta->space, worker_.spec().Digest());
  EXPECT_EQ(meta->length, worker_.spec().block_bytes);
  EXPECT_EQ(meta->sum, SumPayload(std::as_bytes(std::span(chunks[0].data()))));
}

TEST_F(PeerVersionsTest, AFetchWithNoVersionInCommonIsRefused) {
  std::vector<v1::FetchChunk> chunks;
  const grpc::Status status = Fetch(NextProtocol(kNextVersion), &chunks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(chunks.empty());
}

}  // namespace
}  // namespace kvtier::testing
