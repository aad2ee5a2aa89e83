// Tests onboards in parts over a real channel, with an agent whose peers never answer: how such
// calls end, and how much memory they may take.
#include "agent/services/onboard_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/services/worker_wire.h"
#include "core/byte_threads.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/thread_executor.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "proto/rpc_door.h"
#include "tests/testing/blocks.h"
#include "tests/testing/half_sender.h"
#include "tests/testing/wire_keys.h"

namespace kvtier {
namespace {

using testing::AddWireKey;
using ::testing::HasSubstr;
using testing::TestEngineKey;

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kHere = 1;      // Block in host memory.
constexpr uint64_t kAtPeer = 500;  // Block at a peer that does not send it.
constexpr absl::Duration kPatience = absl::Seconds(20);

// KnowingCoordinator says that a peer holds every block that is asked for.
class KnowingCoordinator final : public CoordinatorLink {
 public:
  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time /*deadline*/) override {
    co_return ReportReply{.coordinator_epoch = {3},
                          .next_sequence = report.first_sequence + report.deltas.size()};
  }
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time /*deadline*/) override {
    const Holder holder{.node = *NodeId::FromString("peer"), .address = "peer:7400"};
    co_return LocateReply(query.names.size(), std::vector<Holder>{holder});
  }
};

// HangingPeer sends nothing until LetGo().
class HangingPeer final : public PeerTransport {
 public:
  explicit HangingPeer(Executor* executor) : let_go_(executor) {}
  Task<absl::Status> Fetch(std::string /*address*/, FetchRequest /*request*/, FetchTime time,
                           FetchSink* /*sink*/) override {
    co_await let_go_.WaitUntil(time.deadline);
    co_return absl::UnavailableError("hangs");
  }
  void LetGo() { let_go_.Set(); }

 private:
  Event let_go_;
};

// PartsService answers every OnboardParts with the same set.
class PartsService final : public v1::Worker::CallbackService {
 public:
  PartsService(Agent* agent, CallBudget::Limits limits, BlockRun run)
      : agent_(agent), budget_(limits, &agent->sessions().calls()), run_(std::move(run)) {}
  grpc::ServerWriteReactor<v1::OnboardPart>* OnboardParts(
      grpc::CallbackServerContext* context, const v1::OnboardRequest* request) override {
    return OnboardStream::Run(
        {.agent = agent_, .budget = &budget_}, context, OnboardStream::MemoryOf(*request),
        {.session_token = request->session_token(), .tenant = [] { return DomainId{0}; }},
        [this] { return Ask(); });
  }
  size_t bytes() const { return budget_.bytes(); }

 private:
  Task<absl::StatusOr<std::vector<OnboardRequest>>> Ask() {
    co_return std::vector<OnboardRequest>{
        {.run = run_, .deadline = agent_->executor()->Now() + kPatience}};
  }

  Agent* const agent_;
  CallBudget budget_;
  const BlockRun run_;
};

class OnboardStreamTest : public ::testing::Test {
 protected:
  OnboardStreamTest() {
    const std::vector<TenantTable::Entry> tenants = {{.name = "default"}};
    Agent::Options options{.node = *NodeId::FromString("parts"),
                           .epoch = {7},
                           .address = "parts:7400",
                           .tenants = *TenantTable::Create(tenants),
                           .host_bytes = 16 * kBlockBytes,
                           .slab_bytes = 4 * kBlockBytes};
    agent_ = *Agent::Create(std::move(options), {.executor = &executor_,
                                                 .byte_threads = &bytes_,
                                                 .transport = &peer_,
                                                 .coordinator = &coordinator_});
    KVT_CHECK(AwaitOn(&executor_, agent_->scope(), agent_->Start()).ok());
    CallOn(&executor_, [this] {
      session_ = *agent_->sessions().Open(
          SessionTenants::Own(agent_->options().tenants.OfDomain(DomainId{0})), SessionToken{1});
      return *agent_->sessions().table().AddSpace(session_, testing::TestSpace(kBlockBytes));
    });
    const auto reserved = CallOn(&executor_, [this] {
      return *agent_->flows().putter.Reserve(NameSet({kHere}), Tier::kHost);
    });
    // The agent asks no peer before it is connected.
    while (!CallOn(&executor_, [this] { return agent_->reporter()->connected(); })) {
      std::this_thread::yield();
    }
    KVT_CHECK(AwaitOn(&executor_, agent_->scope(),
                      agent_->flows().putter.Commit(session_, {reserved.blocks[0].id})) == 1);
  }
  ~OnboardStreamTest() override {
    CallOn(&executor_, [this] {
      peer_.LetGo();
      return true;
    });
    door_.reset();
    TaskScope stopping(&executor_);
    EXPECT_TRUE(AwaitOn(&executor_, &stopping, agent_->Stop(executor_.Now() + kPatience)));
    executor_.Stop();
  }

  BlockRun NameSet(const std::vector<uint64_t>& numbers) {
    std::vector<EngineKey> keys;
    for (const uint64_t number : numbers) keys.push_back(TestEngineKey(number));
    BlockRun set = *agent_->sessions().table().NameRun(session_, 1, std::nullopt, keys);
    set.is_set = true;
    return set;
  }
  void Serve(CallBudget::Limits limits, const std::vector<uint64_t>& numbers) {
    service_ = std::make_unique<PartsService>(agent_.get(), limits,
                                              CallOn(&executor_, [&] { return NameSet(numbers); }));
    const std::array<grpc::Service*, 1> services = {service_.get()};
    door_ = *RpcDoor::Open({.name = "test",
                            .address = path_,
                            .uids = {geteuid()},
                            .limits = {.connections = 16,
                                       .calls = 64,
                                       .intake_bytes = size_t{16} << 20,
                                       .threads = 8}},
                           services);
    stub_ = v1::Worker::NewStub(
        grpc::CreateChannel(absl::StrCat("unix:", path_), grpc::InsecureChannelCredentials()));
  }
  void AwaitBytes(size_t bytes) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (service_->bytes() != bytes) {
      ASSERT_LT(absl::Now(), deadline) << service_->bytes() << " of " << bytes;
      std::this_thread::yield();
    }
  }
  // Context has a deadline, so that a call ends even if nothing else ends it.
  struct Context : grpc::ClientContext {
    Context() { set_deadline(absl::ToChronoTime(absl::Now() + kPatience)); }
  };
  // Begins a call and reads its first part, which is of the block that is here.
  std::unique_ptr<grpc::ClientReader<v1::OnboardPart>> ReadFirst(Context* context) {
    auto reader = stub_->OnboardParts(context, {});
    v1::OnboardPart part;
    EXPECT_TRUE(reader->Read(&part));
    EXPECT_EQ(part.sequences_size(), 1);
    EXPECT_EQ(part.missed_size(), 0);
    return reader;
  }

  const std::string path_ = absl::StrCat("/tmp/kvtier-parts-", getpid(), ".sock");
  ThreadExecutor executor_{"decisions"};
  BytePool bytes_{&executor_, "bytes", 1};
  KnowingCoordinator coordinator_;
  HangingPeer peer_{&executor_};
  std::unique_ptr<Agent> agent_;
  SessionId session_{};
  std::unique_ptr<PartsService> service_;
  std::unique_ptr<RpcDoor> door_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

TEST_F(OnboardStreamTest, ACallerThatCancelsEndsTheCall) {
  Serve({.bytes = size_t{1} << 20, .duration = kPatience}, {kAtPeer, kHere});
  Context context;
  const auto reader = ReadFirst(&context);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  AwaitBytes(0);
  EXPECT_EQ(CallOn(&executor_, [this] { return agent_->sessions().leases().size(); }), 1)
      << "the caller has the part";
}

TEST_F(OnboardStreamTest, TheEndOfTheSessionEndsTheCall) {
  Serve({.bytes = size_t{1} << 20, .duration = kPatience}, {kAtPeer, kHere});
  Context context;
  const auto reader = ReadFirst(&context);
  CallOn(&executor_, [this] { return agent_->CloseSession(session_); });
  v1::OnboardPart part;
  EXPECT_FALSE(reader->Read(&part));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(CallOn(&executor_, [this] { return agent_->sessions().leases().size(); }), 0);
}

TEST_F(OnboardStreamTest, AnAgentThatStopsSendsTheLastPart) {
  Serve({.bytes = size_t{1} << 20, .duration = kPatience}, {kAtPeer, kHere});
  Context context;
  const auto reader = ReadFirst(&context);
  CallOn(&executor_, [this] {
    agent_->EndWaits();
    return true;
  });
  v1::OnboardPart part;
  EXPECT_TRUE(reader->Read(&part));
  EXPECT_THAT(part.missed(), ::testing::ElementsAre(v1::MISS_REASON_DEADLINE));
  EXPECT_TRUE(reader->Finish().ok());
  Context another;
  EXPECT_EQ(stub_->OnboardParts(&another, {})->Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(OnboardStreamTest, ACallBeyondTheBytesIsRefusedAndOneThatLastedTooLongIsCutForOthers) {
  Serve({.bytes = kCallBytes, .duration = absl::ZeroDuration()}, {kAtPeer, kHere});
  Context context;
  const auto reader = ReadFirst(&context);
  Context another;
  const grpc::Status refused = stub_->OnboardParts(&another, {})->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(kCallBytes)));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  AwaitBytes(0);
}

TEST_F(OnboardStreamTest, ACallIsChargedToTheTenantOfItsSession) {
  Serve({.bytes = 0, .duration = kPatience}, {kAtPeer, kHere});
  v1::OnboardRequest request;
  const SessionToken token{1};
  request.set_session_token(std::string(token.begin(), token.end()));
  const auto charged = [this] { return agent_->sessions().calls().Of(DomainId{0}).taken; };
  Context context;
  const auto reader = stub_->OnboardParts(&context, request);
  v1::OnboardPart part;
  ASSERT_TRUE(reader->Read(&part));
  EXPECT_EQ(charged(), OnboardStream::MemoryOf(request));
  EXPECT_EQ(service_->bytes(), 0u);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const absl::Time deadline = absl::Now() + kPatience;
  while (charged() > 0) ASSERT_LT(absl::Now(), deadline);
}

TEST_F(OnboardStreamTest, ACallerThatDoesNotReadItsPartMakesRoom) {
  Serve({.bytes = kCallBytes, .duration = absl::ZeroDuration()}, {kAtPeer, kHere});
  testing::HalfSender silent({.socket_path = path_,
                              .rpc = "/kvtier.v1.Worker/OnboardParts",
                              .held_back = 0,
                              .reads_answers = false,
                              .most_calls = 1});
  while (service_->bytes() == 0) ASSERT_TRUE(silent.Step());
  Context another;
  EXPECT_EQ(stub_->OnboardParts(&another, {})->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  AwaitBytes(0);
}

TEST(OnboardStreamMemoryTest, ACallCostsItsKeysOnTop) {
  v1::OnboardRequest request;
  for (int i = 0; i < 3; ++i) AddWireKey("12345678", request.add_sequences());
  EXPECT_EQ(OnboardStream::MemoryOf(request),
            CallBudget::MemoryOf(request) + 3 * kPartsBytesPerKey);
}

TEST(OnboardStreamMemoryTest, TheLargestPartFitsInAMessage) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  OnboardPart part{.lease_deadline = absl::FromUnixNanos(std::numeric_limits<int64_t>::max())};
  for (size_t i = 0; i < convert::kMaxSequencesPerRequest; ++i) {
    OnboardPart::Sequence& sequence = part.sequences.emplace_back();
    sequence.index = i;
    for (size_t j = 0; j < convert::kMaxKeysPerRequest / convert::kMaxSequencesPerRequest; ++j) {
      sequence.blocks.push_back({.index = convert::kMaxKeysPerRequest - 1,
                                 .lease = LeaseId{kMost},
                                 .offset = kMost,
                                 .length = kMost,
                                 .sum = {.hi = kMost, .lo = kMost},
                                 .from = Tier::kDisk});
    }
    part.missed.push_back(MissReason::kEvicted);
  }
  v1::OnboardPart message;
  FillPart(part, &message);
  EXPECT_LE(message.ByteSizeLong(), convert::kMaxMessageBytes);
}

}  // namespace
}  // namespace kvtier
