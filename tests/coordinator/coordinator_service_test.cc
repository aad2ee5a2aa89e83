// Tests the services as agents and operators use them: over a real channel on loopback.
#include "coordinator/coordinator_service.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "coordinator/coordinator_admin_service.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/convert.h"
#include "proto/convert_tenants.h"
#include "tests/coordinator/reports.h"

namespace kvtier {
namespace {

using namespace ::kvtier::testing;  // NOLINT: builders of this folder.
using ::testing::HasSubstr;

constexpr char kBuild[] = "kvtier-test 1";

class CoordinatorServiceTest : public ::testing::Test {
 protected:
  explicit CoordinatorServiceTest(size_t max_waiting_bytes = kMaxWaitingBytes) {
    std::string name = ::testing::TempDir() + "kvtier-service-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    directory_ = name;
    settings_ = *SettingsStore::Open({.directory = directory_});
    service_ = std::make_unique<CoordinatorService>(&guarded_, kBuild, max_waiting_bytes);
    admin_service_ = std::make_unique<CoordinatorAdminService>(&guarded_, settings_.get(), kBuild);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(convert::kMaxMessageBytes);
    // As many threads as the program has at its door.
    builder.SetResourceQuota(grpc::ResourceQuota("test").SetMaxThreads(16));
    builder.RegisterService(service_.get());
    builder.RegisterService(admin_service_.get());
    server_ = builder.BuildAndStart();
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                             grpc::InsecureChannelCredentials());
    stub_ = v1::Coordinator::NewStub(channel);
    admin_ = v1::CoordinatorAdmin::NewStub(channel);
  }
  ~CoordinatorServiceTest() override {
    server_->Shutdown();
    settings_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return convert::FromGrpc((stub.*method)(&context, request, response));
  }
  absl::StatusOr<ReportReply> Tell(const Report& report) {
    v1::ReportResponse response;
    const absl::Status status =
        Call(*stub_, &v1::Coordinator::Stub::Report, convert::ToWire(report, kBuild), &response);
    if (!status.ok()) return status;
    return convert::ReportReplyFrom(response);
  }
  absl::StatusOr<LocateReply> Locate(int asker, std::vector<PeerName> names) {
    v1::LocateResponse response;
    const absl::Status status = Call(
        *stub_, &v1::Coordinator::Stub::Locate,
        convert::ToWire({.asker = TestNode(asker), .names = std::move(names)}, kBuild), &response);
    if (!status.ok()) return status;
    return convert::LocateReplyFrom(response);
  }
  absl::Status Set(const std::string& name, const std::string& value) {
    v1::SetSettingRequest request;
    request.mutable_setting()->set_name(name);
    request.mutable_setting()->set_value(value);
    v1::SetSettingResponse response;
    return Call(*admin_, &v1::CoordinatorAdmin::Stub::SetSetting, request, &response);
  }
  absl::Status SetHostWeight(const std::string& tenant, uint64_t weight) {
    v1::SetTenantRequest request;
    *request.mutable_settings() = convert::ToWire(Weighted(tenant, weight));
    v1::SetTenantResponse response;
    return Call(*admin_, &v1::CoordinatorAdmin::Stub::SetTenant, request, &response);
  }
  static TenantSettings Weighted(const std::string& tenant, uint64_t weight) {
    TenantSettings settings{.name = tenant};
    settings.Of(Tier::kHost, ShareField::kWeight) = weight;
    return settings;
  }
  // Reports as a node that follows the settings.
  ReportReply TellTenants(int node, const ClusterTenants& followed) {
    Report report = SnapshotOf(node, {});
    if (followed.version > 0) report.tenants = followed.Stamp();
    const absl::StatusOr<ReportReply> reply = Tell(report);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(ReportReply());
  }
  absl::Status Init(uint64_t replaced = 0) {
    v1::InitTenantsRequest request;
    request.set_replaced_store(replaced);
    v1::InitTenantsResponse response;
    return Call(*admin_, &v1::CoordinatorAdmin::Stub::InitTenants, request, &response);
  }
  absl::Status Import(const ClusterTenants& tenants) {
    v1::ImportTenantsRequest request;
    *request.mutable_tenants() = convert::ToWire(tenants);
    v1::ImportTenantsResponse response;
    return Call(*admin_, &v1::CoordinatorAdmin::Stub::ImportTenants, request, &response);
  }
  absl::StatusOr<ClusterTenants> Export() {
    v1::ExportTenantsResponse response;
    const absl::Status status = Call(*admin_, &v1::CoordinatorAdmin::Stub::ExportTenants,
                                     v1::ExportTenantsRequest(), &response);
    if (!status.ok()) return status;
    return convert::ClusterTenantsFrom(response.tenants());
  }
  v1::CoordinatorStatusResponse Status() {
    v1::CoordinatorStatusResponse response;
    EXPECT_TRUE(Call(*admin_, &v1::CoordinatorAdmin::Stub::Status, v1::CoordinatorStatusRequest(),
                     &response)
                    .ok());
    return response;
  }

  std::string directory_;
  ManualClock clock_;
  GuardedCoordinator guarded_{&clock_, Epoch{42}, {.max_nodes = 2}};
  std::unique_ptr<SettingsStore> settings_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<CoordinatorAdminService> admin_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::unique_ptr<v1::CoordinatorAdmin::Stub> admin_;
};

TEST_F(CoordinatorServiceTest, WhatOneNodeReportsAnotherLocates) {
  const auto reply = Tell(SnapshotOf(1, {AddOf(1), AddOf(2, Tier::kDisk)}));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->coordinator_epoch, Epoch{42});
  EXPECT_EQ(reply->next_sequence, 2);
  const auto found = Locate(2, {NumberedName(1), NumberedName(2), NumberedName(3)});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2);
  EXPECT_EQ((*found)[0][0].node, TestNode(1));
  EXPECT_EQ((*found)[1][0].tier, Tier::kDisk);
}

TEST_F(CoordinatorServiceTest, TheLargestReportAndRunFitInAMessage) {
  std::vector<NamedDelta> deltas;
  std::vector<PeerName> keys;
  for (uint64_t key = 0; key < convert::kMaxDeltasPerReport; ++key) deltas.push_back(AddOf(key));
  for (uint64_t key = 0; key < convert::kMaxKeysPerRequest; ++key) {
    keys.push_back(NumberedName(key));
  }
  ASSERT_TRUE(Tell(SnapshotOf(1, deltas)).ok());
  const auto found = Locate(2, keys);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size(), convert::kMaxKeysPerRequest);
}

// Locates are calls in progress at the same time, on one connection.
class Locates {
 public:
  Locates(v1::Coordinator::Stub* stub, size_t count, const v1::LocateRequest& request)
      : request_(request), left_(count), calls_(count) {
    for (Call& call : calls_) {
      call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      stub->async()->Locate(&call.context, &request_, &call.response, [this, &call](auto status) {
        absl::MutexLock lock(&mu_);
        call.status = std::move(status);
        --left_;
      });
    }
  }
  ~Locates() { AwaitLeft(0); }
  void Cancel(size_t index) { calls_[index].context.TryCancel(); }
  // Waits until at most `count` are in progress.
  void AwaitLeft(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto have_ended = [&] { return left_ <= count; };
    mu_.Await(absl::Condition(&have_ended));
  }
  // Returns how many ended with this code.
  size_t With(grpc::StatusCode code) {
    absl::MutexLock lock(&mu_);
    return std::ranges::count_if(
        calls_, [&](const Call& call) { return call.status && call.status->error_code() == code; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::LocateResponse response;
    std::optional<grpc::Status> status;  // nullopt: it is in progress.
  };
  const v1::LocateRequest request_;
  absl::Mutex mu_;
  size_t left_ ABSL_GUARDED_BY(mu_);
  std::vector<Call> calls_;
};

v1::LocateRequest LocateOf(size_t keys) {
  LocateQuery query{.asker = TestNode(2)};
  for (uint64_t key = 0; key < keys; ++key) query.names.push_back(NumberedName(key));
  return convert::ToWire(query, kBuild);
}

// Once, 21 to 24 of them were refused at once, because 16 threads were at work.
TEST_F(CoordinatorServiceTest, SixtyFourLocatesOfFourThousandKeysAtOnceAreAllAnswered) {
  std::vector<NamedDelta> deltas;
  for (uint64_t key = 0; key < 4096; ++key) deltas.push_back(AddOf(key));
  ASSERT_TRUE(Tell(SnapshotOf(1, deltas)).ok());
  Locates locates(stub_.get(), 64, LocateOf(4096));
  locates.AwaitLeft(0);
  EXPECT_EQ(locates.With(grpc::StatusCode::OK), 64u);
}

class BusyCoordinatorTest : public CoordinatorServiceTest {
 protected:
  static constexpr size_t kRoom = 8;  // Calls that may wait.
  BusyCoordinatorTest() : CoordinatorServiceTest(kRoom * kBytesPerCall + kBytesPerCall / 2) {}
};

TEST_F(BusyCoordinatorTest, BeyondTheRoomALocateIsToldThatTheCoordinatorIsBusy) {
  guarded_.mu.Lock();
  Locates locates(stub_.get(), 64, LocateOf(1));
  locates.AwaitLeft(kMaxCallsAtOnce + kRoom);
  // Fewer have a place where many come before the first one runs.
  const size_t refused = locates.With(grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(refused, 64 - kMaxCallsAtOnce - kRoom);
  EXPECT_LE(refused, 64 - kRoom);
  guarded_.mu.Unlock();
  locates.AwaitLeft(0);
  EXPECT_EQ(locates.With(grpc::StatusCode::OK), 64 - refused);
}

TEST_F(BusyCoordinatorTest, LocatesWhoseCallersGiveUpGiveTheirRoomBack) {
  guarded_.mu.Lock();
  Locates given_up(stub_.get(), kMaxCallsAtOnce + kRoom, LocateOf(1));
  for (size_t i = 0; i < kMaxCallsAtOnce + kRoom; ++i) given_up.Cancel(i);
  given_up.AwaitLeft(0);
  // The coordinator hears of it a moment later.
  bool has_room = false;
  for (int i = 0; i < 1000 && !has_room; ++i) {
    Locates one(stub_.get(), 1, LocateOf(1));
    absl::SleepFor(absl::Milliseconds(5));
    has_room = one.With(grpc::StatusCode::RESOURCE_EXHAUSTED) == 0;
    one.Cancel(0);
  }
  guarded_.mu.Unlock();
  EXPECT_TRUE(has_room);
}

TEST_F(CoordinatorServiceTest, BadInputIsRefusedWithTheFieldsName) {
  v1::ReportResponse response;
  v1::ReportRequest request = convert::ToWire(SnapshotOf(1, {}), kBuild);
  request.set_address("nowhere");
  const absl::Status status = Call(*stub_, &v1::Coordinator::Stub::Report, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("address"));
  EXPECT_EQ(Status().nodes_size(), 0);
}

TEST_F(CoordinatorServiceTest, AnotherProtocolIsRefusedLoudly) {
  v1::LocateResponse response;
  v1::LocateRequest request = convert::ToWire({.asker = TestNode(1), .names = {}}, kBuild);
  request.mutable_version()->set_min_version(7);
  request.mutable_version()->set_version(8);
  const absl::Status status = Call(*stub_, &v1::Coordinator::Stub::Locate, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("7 to 8"));
}

TEST_F(CoordinatorServiceTest, ANodeBeyondTheLimitIsRefusedAndShownInStatus) {
  ASSERT_TRUE(Tell(SnapshotOf(1, {})).ok());
  ASSERT_TRUE(Tell(SnapshotOf(2, {})).ok());
  EXPECT_EQ(Tell(SnapshotOf(3, {})).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Status().refused_nodes(), 1);
}

TEST_F(CoordinatorServiceTest, AMessageBeyondTheLimitIsRefused) {
  v1::ReportResponse response;
  v1::ReportRequest request = convert::ToWire(SnapshotOf(1, {}), kBuild);
  request.mutable_version()->set_build(std::string(convert::kMaxMessageBytes, 'x'));
  EXPECT_EQ(Call(*stub_, &v1::Coordinator::Stub::Report, request, &response).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(CoordinatorServiceTest, StatusTellsTheNodesAndTheirTiers) {
  Report report = SnapshotOf(1, {AddOf(1)});
  report.tiers = {{.tier = Tier::kHost, .capacity_bytes = 8, .used_bytes = 4, .blocks = 2}};
  ASSERT_TRUE(Tell(report).ok());
  clock_.Advance(absl::Seconds(6));
  const v1::CoordinatorStatusResponse status = Status();
  EXPECT_EQ(status.coordinator_epoch(), 42);
  EXPECT_EQ(status.directory_keys(), 1);
  EXPECT_EQ(status.reports(), 1);
  EXPECT_EQ(status.uptime_seconds(), 6);
  ASSERT_EQ(status.nodes_size(), 1);
  EXPECT_EQ(status.nodes(0).node_id(), "node-1");
  EXPECT_EQ(status.nodes(0).state(), "silent");
  EXPECT_EQ(status.nodes(0).silence_seconds(), 6);
  EXPECT_EQ(status.nodes(0).directory_blocks(), 1);
  EXPECT_EQ(status.nodes(0).tiers(0).capacity_bytes(), 8);
}

TEST_F(CoordinatorServiceTest, LookupTellsTheCopiesOfAPeerNameOnly) {
  ASSERT_TRUE(Tell(SnapshotOf(1, {AddOf(1), AddOf(1, Tier::kDisk)})).ok());
  v1::LookupRequest request;
  v1::LookupResponse response;
  request.set_peer_name(convert::ToWire(NumberedName(1)));
  ASSERT_TRUE(Call(*admin_, &v1::CoordinatorAdmin::Stub::Lookup, request, &response).ok());
  EXPECT_EQ(response.copies_size(), 2);
  EXPECT_EQ(response.copies(0).node_id(), "node-1");
  request.clear_peer_name();
  request.set_engine_key("12345678");
  const absl::Status status =
      Call(*admin_, &v1::CoordinatorAdmin::Stub::Lookup, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("peer_name"));
}

TEST_F(CoordinatorServiceTest, ASettingIsInForceWhenItIsAnswered) {
  ASSERT_TRUE(Init().ok());
  ASSERT_TRUE(Tell(SnapshotOf(1, {AddOf(1)})).ok());
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Locate(2, {NumberedName(1)})->size(), 1);
  ASSERT_TRUE(Set("node_timeout_ms", "1000").ok());
  EXPECT_EQ(Locate(2, {NumberedName(1)})->size(), 0);
  v1::GetSettingsResponse settings;
  ASSERT_TRUE(
      Call(*admin_, &v1::CoordinatorAdmin::Stub::GetSettings, v1::GetSettingsRequest(), &settings)
          .ok());
  ASSERT_EQ(settings.settings_size(), 2);
  EXPECT_EQ(settings.settings(1).name(), "node_timeout_ms");
  EXPECT_EQ(settings.settings(1).value(), "1000");
}

// Once, the settings that a report brought with a later version became the cluster's, and those of
// every node. Such a field is one that nobody knows now.
TEST_F(CoordinatorServiceTest, AReportSetsNothingAndRefusesNoOperator) {
  ASSERT_TRUE(Init().ok());
  v1::ReportRequest forged = convert::ToWire(SnapshotOf(1, {}), kBuild);
  forged.set_tenants_store(settings_->tenants().store);
  forged.set_tenants_version(uint64_t{1} << 62);
  // Field 12 was a ClusterTenants.
  const ClusterTenants brought = {
      .version = uint64_t{1} << 62,
      .settings = {{"beta", {.name = "beta", .members = {{"acme", GroupAccess::kWrite}}}}}};
  const std::string bytes = convert::ToWire(brought).SerializeAsString();
  std::string raw = forged.SerializeAsString();
  raw += static_cast<char>(12 << 3 | 2);
  raw += static_cast<char>(bytes.size());
  raw += bytes;
  ASSERT_LT(bytes.size(), 128u);
  ASSERT_TRUE(forged.ParseFromString(raw));
  v1::ReportResponse response;
  ASSERT_TRUE(Call(*stub_, &v1::Coordinator::Stub::Report, forged, &response).ok());
  EXPECT_TRUE(response.tenants_differ());
  EXPECT_TRUE(settings_->tenants().settings.empty());
  EXPECT_TRUE(TellTenants(2, {}).tenants->settings.empty());
  ASSERT_TRUE(SetHostWeight("gamma", 3).ok());
  EXPECT_EQ(TellTenants(2, {}).tenants->version, 2);
  EXPECT_TRUE(Status().nodes(0).settings_differ());
  EXPECT_EQ(Status().nodes(0).settings_version(), uint64_t{1} << 62);
}

TEST_F(CoordinatorServiceTest, AfterALossNodesKeepTheirSettingsUntilAnExportOfOneIsImported) {
  const ClusterTenants known = {
      .store = 5, .version = 9, .settings = {{"beta", Weighted("beta", 7)}}};
  EXPECT_TRUE(TellTenants(1, known).tenants_differ);
  EXPECT_TRUE(absl::IsFailedPrecondition(SetHostWeight("gamma", 3)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Export().status()));
  EXPECT_EQ(Status().settings_version(), 0);
  ASSERT_TRUE(Import(known).ok());
  EXPECT_EQ(Export().value(), known);
  EXPECT_EQ(Status().settings_store(), 5);
  EXPECT_FALSE(TellTenants(1, known).tenants.has_value());
  EXPECT_FALSE(TellTenants(1, known).tenants_differ);
  ASSERT_TRUE(SetHostWeight("gamma", 3).ok());
  const ReportReply reply = TellTenants(1, known);
  ASSERT_TRUE(reply.tenants.has_value());
  EXPECT_EQ(reply.tenants->version, 10);
  EXPECT_EQ(reply.tenants->settings.at("beta"), known.settings.at("beta"));
  EXPECT_TRUE(reply.tenants->settings.contains("gamma"));
}

TEST_F(CoordinatorServiceTest, AnOlderExportIsTakenByNoNodeThatFollowsLaterSettings) {
  const ClusterTenants known = {
      .store = 5, .version = 9, .settings = {{"beta", Weighted("beta", 7)}}};
  ClusterTenants older = known;
  older.version = 7;
  older.settings.clear();
  ASSERT_TRUE(Import(older).ok());
  EXPECT_FALSE(TellTenants(1, known).tenants.has_value());
  EXPECT_TRUE(TellTenants(1, known).tenants_differ);
  EXPECT_EQ(TellTenants(2, {}).tenants, older);
  EXPECT_TRUE(absl::IsFailedPrecondition(Import(known))) << "it would replace settings";
}

TEST_F(CoordinatorServiceTest, SettingsThatBeginAfterALossAreTakenWhereTheyReplaceTheLostOnes) {
  const ClusterTenants known = {.store = 5, .version = 9};
  ASSERT_TRUE(Init().ok());
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(SetHostWeight("gamma", 1 + i).ok());
  EXPECT_FALSE(TellTenants(1, known).tenants.has_value()) << "however late the version is";
  EXPECT_TRUE(TellTenants(1, known).tenants_differ);
  ASSERT_TRUE(Init(5).ok());
  EXPECT_FALSE(TellTenants(1, known).tenants_differ);
  EXPECT_TRUE(TellTenants(1, known).tenants->settings.contains("gamma"));
}

TEST_F(CoordinatorServiceTest, ASettingOutOfRangeChangesNothing) {
  ASSERT_TRUE(Init().ok());
  EXPECT_EQ(Set("node_timeout_ms", "0").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Set("colour", "blue").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(settings_->current().node_timeout, absl::Seconds(5));
}

}  // namespace
}  // namespace kvtier
