// Version N and N-1 talk, unknown fields and all; versions that share nothing refuse each
// other and say both ranges.
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
#include "tests/integration/raw_session.h"
#include "tests/testing/blocks.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/unknown_fields.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ProtocolVersion Version(uint32_t version, uint32_t min_version) {
  v1::ProtocolVersion message;
  message.set_version(version);
  message.set_min_version(min_version);
  AddUnknownFields(&message);
  return message;
}

class VersionsTest : public ::testing::Test {
 protected:
  // Of a space of its own.
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
    request.set_space_id(registered.space_id());
    request.add_engine_keys("a key of some bytes");
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

TEST_F(VersionsTest, ASessionOfANewerWorkerThatKnowsOursIsOpened) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.version = wire::kSessionVersion + 1;
  const auto welcome = session.Say(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kOk);
  EXPECT_EQ(agent_.Status().sessions(), 1);
}

TEST_F(VersionsTest, ASessionWithNoVersionInCommonIsRefusedLoudly) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.version = 5;
  hello.min_version = 5;
  const auto welcome = session.Say(hello);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->code, wire::WelcomeCode::kVersionMismatch);
  EXPECT_EQ(welcome->version, 4);
  EXPECT_EQ(welcome->min_version, 1);
  EXPECT_EQ(agent_.Status().sessions(), 0);
  EXPECT_THAT(agent_.LogText(), HasSubstr("worker speaks 5 to 5, this agent 1 to 4"));
}

class PoolVersionsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHandle = uint64_t{2} << 20;  // 32 slots.
  // A session of `version` that has asked for the pool's first handle, in `Reply`'s form.
  template <typename Reply>
  Reply Open(uint16_t version, RawSession* session) {
    wire::Hello hello = session->GoodHello();
    hello.version = version;
    const auto welcome = session->Say(hello);
    EXPECT_TRUE(welcome.has_value() && welcome->code == wire::WelcomeCode::kOk);
    token_ = TokenText(*welcome);
    const auto reply =
        session->Ask<Reply>(wire::DescriptorRequest{.kind = wire::DescriptorKind::kGpuPool});
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(Reply{});
  }
  grpc::StatusCode TakeSlot() {
    const auto stub = v1::Worker::NewStub(WorkerChannel(agent_.socket_dir()));
    v1::RegisterSpaceRequest space;
    space.set_session_token(token_);
    *space.mutable_space() = convert::ToWire(worker_.spec());
    v1::RegisterSpaceResponse registered;
    grpc::ClientContext first;
    SetCallDeadline(&first);
    EXPECT_TRUE(stub->RegisterSpace(&first, space, &registered).ok());
    v1::TakeSlotsRequest request;
    request.set_session_token(token_);
    request.set_space_id(registered.space_id());
    request.set_slots(1);
    v1::TakeSlotsResponse response;
    grpc::ClientContext second;
    SetCallDeadline(&second);
    return stub->TakeSlots(&second, request, &response).error_code();
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", {{"gpu_bytes", "2MiB"},
                                                        {"gpu_max_bytes", "8MiB"},
                                                        {"gpu_block_bytes", "64KiB"},
                                                        {"device", "emulated"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  std::string token_;
};

TEST_F(PoolVersionsTest, AWorkerOfVersionTwoIsGivenNoSlotThatItHasNotMapped) {
  RawSession session(agent_.socket_dir());
  const auto reply = Open<wire::DescriptorReplyV2>(2, &session);
  EXPECT_EQ(reply.code, wire::DescriptorCode::kOk);
  EXPECT_EQ(reply.handles, 1);
  EXPECT_EQ(reply.max_handles, 4);
  EXPECT_EQ(TakeSlot(), grpc::StatusCode::OK);
  const auto taken = worker_.client().TakeSlots(worker_.space(), 31);
  ASSERT_EQ(taken->size(), 31);
  ASSERT_EQ(agent_.ResizeGpu(2 * kHandle)->bytes(), 2 * kHandle);
  EXPECT_EQ(TakeSlot(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(worker_.client().TakeSlots(worker_.space(), 1)->size(), 1);
}

TEST_F(PoolVersionsTest, AWorkerOfVersionThreeIsToldTheVersionOfThePoolAndOfEachHandle) {
  RawSession session(agent_.socket_dir());
  const auto before = Open<wire::DescriptorReply>(3, &session);
  EXPECT_EQ(before.handles, 1);
  EXPECT_GT(before.version, 0);
  EXPECT_EQ(before.since, before.version);
  ASSERT_EQ(agent_.ResizeGpu(2 * kHandle)->bytes(), 2 * kHandle);
  const auto after = session.Ask<wire::DescriptorReply>(
      wire::DescriptorRequest{.kind = wire::DescriptorKind::kGpuPool, .index = 1});
  ASSERT_TRUE(after.has_value());
  EXPECT_GT(after->version, before.version);
  EXPECT_EQ(after->since, after->version);
}

// It cannot say when its writes are over.
TEST_F(VersionsTest, WhatAWorkerOfVersionThreeReservedStaysTakenAsLongAsItLives) {
  std::string token;
  {
    RawSession session(agent_.socket_dir());
    wire::Hello hello = session.GoodHello();
    hello.version = 3;
    const auto welcome = session.Say(hello);
    ASSERT_TRUE(welcome.has_value());
    token = TokenText(*welcome);
    const auto lifeline = session.Ask<wire::DescriptorReply>(
        wire::DescriptorRequest{.kind = wire::DescriptorKind::kLifeline});
    ASSERT_TRUE(lifeline.has_value());
    EXPECT_EQ(lifeline->code, wire::DescriptorCode::kMalformed);
    ReserveOne(token);
  }
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return agent_.Status().sessions() == 0; }));
  EXPECT_GT(agent_.TierStatus(Tier::kHost).late_bytes(), 0);
}

// It would take the first handle for the whole of it.
TEST_F(PoolVersionsTest, AWorkerOfVersionOneHasNoPoolThatMayGrow) {
  RawSession session(agent_.socket_dir());
  wire::Hello hello = session.GoodHello();
  hello.version = 1;
  ASSERT_EQ(session.Say(hello)->code, wire::WelcomeCode::kOk);
  const auto reply = session.Ask<wire::DescriptorReplyV1>(
      wire::DescriptorRequestV1{.kind = wire::DescriptorKind::kGpuPool});
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code, wire::DescriptorCode::kNotAvailable);
}

TEST_F(VersionsTest, AReportOfTheNextVersionIsTakenWithItsUnknownFields) {
  v1::ReportRequest report;
  *report.mutable_version() = Version(2, 1);
  report.set_node_id("node-of-tomorrow");
  report.set_node_epoch(1);
  report.set_address("127.0.0.1:1");
  report.set_snapshot_begin(true);
  report.set_snapshot_end(true);
  v1::BlockDelta* delta = report.add_deltas();
  delta->set_kind(v1::BlockDelta::ADD);
  delta->set_tier(v1::TIER_HOST);
  delta->set_block_key(std::string(16, 'k'));
  AddUnknownFields(delta);
  AddUnknownFields(&report);

  grpc::ClientContext context;
  SetCallDeadline(&context);
  v1::ReportResponse response;
  const grpc::Status status =
      v1::Coordinator::NewStub(coordinator_.channel())->Report(&context, report, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.version().version(), 1);
  EXPECT_EQ(coordinator_.Holders(*BlockKey::FromBytes(std::string(16, 'k'))), 1);
}

TEST_F(VersionsTest, AReportWithNoVersionInCommonIsRefusedWithBothRanges) {
  v1::ReportRequest report;
  *report.mutable_version() = Version(3, 2);
  report.set_node_id("node-of-next-year");
  report.set_node_epoch(1);
  report.set_address("127.0.0.1:1");
  grpc::ClientContext context;
  SetCallDeadline(&context);
  v1::ReportResponse response;
  const grpc::Status status =
      v1::Coordinator::NewStub(coordinator_.channel())->Report(&context, report, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("2"), HasSubstr("3"), HasSubstr("1")));
}

class PeerVersionsTest : public VersionsTest {
 protected:
  // Fetches block 100 as another node would; the chunks that came.
  grpc::Status Fetch(const v1::ProtocolVersion& version, std::vector<v1::FetchChunk>* chunks) {
    EXPECT_EQ(worker_.Put({.first = 100, .count = 1}), 1);
    v1::FetchRequest request;
    *request.mutable_version() = version;
    request.set_node_id("node-of-tomorrow");
    request.add_block_keys(convert::ToWire(worker_.KeyOf(100)));
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
};

TEST_F(PeerVersionsTest, AFetchOfTheNextVersionGetsItsBlockWithProof) {
  std::vector<v1::FetchChunk> chunks;
  const grpc::Status status = Fetch(Version(2, 1), &chunks);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(chunks.size(), 1);
  const auto proof = convert::ProofFrom(chunks[0].proof());
  ASSERT_TRUE(proof.ok());
  const BlockIdentity identity{.key = worker_.KeyOf(100),
                               .space = worker_.spec().Digest(),
                               .length = worker_.spec().block_bytes};
  EXPECT_EQ(
      VerifyBlock(identity, proof->sum, proof->seal, std::as_bytes(std::span(chunks[0].data()))),
      absl::OkStatus());
}

TEST_F(PeerVersionsTest, AFetchWithNoVersionInCommonIsRefused) {
  std::vector<v1::FetchChunk> chunks;
  const grpc::Status status = Fetch(Version(2, 2), &chunks);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(chunks.empty());
}

}  // namespace
}  // namespace kvtier::testing
