// Tests unary calls over a real channel: how many there may be, and which are cut to make room.
#include "agent/services/unary_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "agent/sessions/call_shares.h"
#include "core/event.h"
#include "core/thread_executor.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "proto/rpc_door.h"
#include "tests/testing/half_sender.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

// Match waits until Open(); Ping does not wait.
class GatedService final : public v1::Worker::CallbackService {
 public:
  GatedService(Executor* executor, TaskScope* scope, CallBudget::Limits limits)
      : executor_(executor), open_(executor), budget_(limits), calls_(executor, scope, &budget_) {}
  grpc::ServerUnaryReactor* Match(grpc::CallbackServerContext* context,
                                  const v1::MatchRequest* request, v1::MatchResponse*) override {
    return calls_.Run(context, *request, Wait());
  }
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const v1::PingRequest* request, v1::PingResponse*) override {
    return calls_.Run(context, *request, Done());
  }
  void Open() {
    executor_->Post([this] { open_.Set(); });
  }
  size_t bytes() const { return budget_.bytes(); }

 private:
  Task<absl::Status> Wait() {
    co_await open_.WaitUntil(executor_->Now() + absl::Seconds(20));
    co_return absl::OkStatus();
  }
  Task<absl::Status> Done() { co_return absl::OkStatus(); }

  Executor* const executor_;
  Event open_;
  CallBudget budget_;
  UnaryCalls calls_;
};

class UnaryCallsTest : public ::testing::Test {
 protected:
  void Serve(CallBudget::Limits limits) {
    service_ = std::make_unique<GatedService>(&executor_, &scope_, limits);
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
  // Begins a Match that waits at the gate.
  void MatchInBackground() {
    waiting_.emplace_back([this] {
      grpc::ClientContext context;
      v1::MatchResponse response;
      stub_->Match(&context, v1::MatchRequest(), &response);
    });
  }
  grpc::Status Ping() {
    grpc::ClientContext context;
    v1::PingResponse response;
    return stub_->Ping(&context, v1::PingRequest(), &response);
  }
  void AwaitBytes(size_t bytes) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (service_->bytes() != bytes) {
      ASSERT_LT(absl::Now(), deadline) << service_->bytes() << " of " << bytes;
      std::this_thread::yield();
    }
  }
  void TearDown() override {
    service_->Open();
    for (std::thread& thread : waiting_) thread.join();
    door_.reset();
    executor_.Stop();
  }

  const std::string path_ = absl::StrCat("/tmp/kvtier-calls-", getpid(), ".sock");
  ThreadExecutor executor_{"decisions"};
  TaskScope scope_{&executor_};
  std::unique_ptr<GatedService> service_;
  std::unique_ptr<RpcDoor> door_;
  std::unique_ptr<v1::Worker::Stub> stub_;
  std::vector<std::thread> waiting_;
};

TEST_F(UnaryCallsTest, ACallCostsItsRequestAndMore) {
  Serve({.bytes = 1, .duration = absl::Seconds(20)});
  v1::MatchRequest request;
  EXPECT_EQ(CallBudget::MemoryOf(request), kCallBytes);
  request.add_sequences()->set_engine_keys(std::string(1000, 'k'));
  EXPECT_GE(CallBudget::MemoryOf(request), kCallBytes + 1000 * kCallBytesPerRequestByte);
}

// Regression: only the number of calls was limited, and 600 that waited, of 540 KB, took 0.5 GB.
TEST_F(UnaryCallsTest, ACallBeyondTheBytesIsRefusedAtOnceAndServedWhenOthersAreOver) {
  Serve({.bytes = 3 * kCallBytes, .duration = absl::Seconds(90)});
  for (int i = 0; i < 3; ++i) MatchInBackground();
  AwaitBytes(3 * kCallBytes);
  const grpc::Status refused = Ping();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(3 * kCallBytes)));
  service_->Open();
  AwaitBytes(0);
  EXPECT_TRUE(Ping().ok());
}

TEST_F(UnaryCallsTest, ACallWhoseAnswerNobodyReadsMakesRoom) {
  Serve({.bytes = kCallBytes, .duration = absl::ZeroDuration()});
  testing::HalfSender silent({.socket_path = path_,
                              .rpc = "/kvtier.v1.Worker/Ping",
                              .held_back = 0,
                              .reads_answers = false,
                              .most_calls = 1});
  while (service_->bytes() == 0) ASSERT_TRUE(silent.Step());
  EXPECT_EQ(Ping().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  AwaitBytes(0);
  EXPECT_TRUE(Ping().ok());
}

// CountedCall counts how often it is cut.
struct CountedCall final : CallBudget::Share {
  explicit CountedCall(size_t bytes) : CallBudget::Share(bytes) {}
  void Cut() override { ++cuts; }
  int cuts = 0;
};

class TenantCallsTest : public ::testing::Test {
 protected:
  TenantCallsTest() {
    tenants_.SessionOpened(SessionToken{1}, DomainId{0});
    tenants_.SessionOpened(SessionToken{2}, DomainId{1});
  }
  static std::string Token(char first) {
    std::string token(sizeof(SessionToken), '\0');
    token[0] = first;
    return token;
  }
  // Begins calls of the session until one is refused; returns how many there are then.
  size_t BeginAll(const std::string& token, size_t bytes) {
    const size_t before = calls_.size();
    do {
      calls_.push_back(std::make_unique<CountedCall>(bytes));
    } while (budget_.Begin(calls_.back().get(), token).ok());
    return calls_.size() - before - 1;
  }
  void EndAll() {
    for (const auto& call : calls_) budget_.End(call.get());
    calls_.clear();
  }

  CallShares tenants_{kMaxTenantCallBytes, 2};
  CallBudget budget_{{.bytes = kMaxUnknownSessionCallBytes, .duration = absl::ZeroDuration()},
                     &tenants_};
  std::vector<std::unique_ptr<CountedCall>> calls_;
};

// Seen: a tenant with calls of 8,192 keys in each of hundreds of sessions had all 256 MiB, and the
// calls of all others were refused.
TEST_F(TenantCallsTest, EndlessCallsOfOneTenantAndOfStrangersRefuseNoCallOfAnother) {
  constexpr size_t kBytes = size_t{1} << 20;
  EXPECT_EQ(BeginAll(Token(1), kBytes), kMaxTenantCallBytes * 3 / 4 / kBytes);
  EXPECT_EQ(BeginAll(Token(3), kBytes), kMaxUnknownSessionCallBytes / kBytes);
  EXPECT_EQ(budget_.bytes(), kMaxUnknownSessionCallBytes);
  EXPECT_EQ(BeginAll(Token(2), kBytes), kMaxTenantCallBytes / 4 / kBytes);
  EndAll();
  EXPECT_EQ(budget_.bytes(), 0u);
  EXPECT_EQ(tenants_.Of(DomainId{0}).taken + tenants_.Of(DomainId{1}).taken, 0u);
}

TEST_F(TenantCallsTest, AStrangersLargestCallFits) {
  v1::OnboardRequest request;
  request.mutable_sequences()->Add()->set_engine_keys(std::string(kMaxRequestBytes, 'k'));
  CountedCall largest(CallBudget::MemoryOf(request) +
                      convert::kMaxKeysPerRequest * kPartsBytesPerKey);
  EXPECT_TRUE(budget_.Begin(&largest, Token(3)).ok());
  budget_.End(&largest);
}

TEST_F(TenantCallsTest, ARefusalCutsTheCallsThatLastedTooLong) {
  BeginAll(Token(1), kMaxTenantCallBytes / 2);
  EXPECT_EQ(calls_.front()->cuts, 1);
  EXPECT_EQ(calls_.back()->cuts, 0) << "it never began";
  EndAll();
}

}  // namespace
}  // namespace kvtier
