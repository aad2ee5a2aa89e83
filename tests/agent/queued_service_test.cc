// Calls of a CallLoop over real channels: how many there may be, how they end, and what a door
// that is shut waits for.
#include "agent/queued_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/thread_executor.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/rpc_door.h"
#include "tests/testing/half_sender.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);
// Of calls that nobody may answer.
constexpr absl::Duration kShortPatience = absl::Seconds(1);

// TakeSlots answers at once with the number that it is asked for; Match waits until Open(), and
// Prefetch until its caller is gone.
class GatedService final : public QueuedService {
 public:
  using Rpcs = v1::Worker::AsyncService;
  GatedService(Executor* executor, TaskScope* scope, CallBudget::Limits limits)
      : executor_(executor), open_(executor), budget_(limits), calls_(executor, scope, &budget_) {}

  Rpcs* rpcs() override { return &rpcs_; }
  void Serve(CallLoop* loop) override {
    ServeUnary(loop, this, &Rpcs::RequestTakeSlots, &GatedService::TakeSlots);
    ServeUnary(loop, this, &Rpcs::RequestMatch, &GatedService::Match);
    ServeUnary(loop, this, &Rpcs::RequestPrefetch, &GatedService::Prefetch);
  }
  void Open() {
    executor_->Post([this] { open_.Set(); });
  }
  size_t bytes() const { return budget_.bytes(); }

 private:
  using Context = grpc::ServerContextBase;
  void TakeSlots(UnaryCalls::Call* call, Context* /*context*/, const v1::TakeSlotsRequest* request,
                 v1::TakeSlotsResponse* response) {
    calls_.Answer(call, *request, Echo(request, response));
  }
  void Match(UnaryCalls::Call* call, Context* /*context*/, const v1::MatchRequest* request,
             v1::MatchResponse* /*response*/) {
    calls_.Answer(call, *request, AwaitOpen());
  }
  void Prefetch(UnaryCalls::Call* call, Context* context, const v1::PrefetchRequest* request,
                v1::PrefetchResponse* /*response*/) {
    calls_.Answer(call, *request, AwaitCancellation(context));
  }
  Task<absl::Status> Echo(const v1::TakeSlotsRequest* request, v1::TakeSlotsResponse* response) {
    response->add_slots(request->slots());
    co_return absl::OkStatus();
  }
  Task<absl::Status> AwaitOpen() {
    co_await open_.WaitUntil(executor_->Now() + kPatience);
    co_return absl::OkStatus();
  }
  Task<absl::Status> AwaitCancellation(Context* context) {
    const absl::Time deadline = executor_->Now() + kPatience;
    while (!context->IsCancelled() && executor_->Now() < deadline) {
      co_await SleepUntil(executor_, executor_->Now() + absl::Milliseconds(1));
    }
    co_return absl::OkStatus();
  }

  Executor* const executor_;
  Event open_;
  CallBudget budget_;
  UnaryCalls calls_;
  Rpcs rpcs_;
};

class QueuedServiceTest : public ::testing::Test {
 protected:
  using Channel = std::shared_ptr<grpc::Channel>;
  void Serve(CallBudget::Limits limits = {.bytes = size_t{64} << 20, .duration = kPatience}) {
    service_ = std::make_unique<GatedService>(&executor_, &scope_, limits);
    door_ = *RpcDoor::Open({.name = "test",
                            .address = path_,
                            .uids = {geteuid()},
                            .limits = {.connections = 16,
                                       .calls = 64,
                                       .intake_bytes = size_t{16} << 20,
                                       .threads = 8}},
                           {}, service_.get());
    channel_ = NewConnection();
    stub_ = v1::Worker::NewStub(channel_);
  }
  Channel NewConnection() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("unix:", path_),
                                     grpc::InsecureChannelCredentials(), arguments);
  }
  // Whether the answer is the one of its own request.
  static grpc::Status Take(v1::Worker::Stub* stub, uint32_t number,
                           absl::Duration patience = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
    v1::TakeSlotsRequest request;
    request.set_slots(number);
    v1::TakeSlotsResponse response;
    const grpc::Status status = stub->TakeSlots(&context, request, &response);
    if (status.ok() && (response.slots_size() != 1 || response.slots(0) != number)) {
      return {grpc::StatusCode::DATA_LOSS, "the answer of another call"};
    }
    return status;
  }
  grpc::Status Take() { return Take(stub_.get(), 7); }
  // Begins a Match that waits at the gate; its status is in statuses_[i] when the thread is joined.
  void MatchInBackground() {
    auto& status = statuses_.emplace_back(std::make_unique<grpc::Status>());
    waiting_.emplace_back([this, told = status.get()] {
      grpc::ClientContext context;
      v1::MatchResponse response;
      *told = stub_->Match(&context, v1::MatchRequest(), &response);
    });
  }
  void JoinWaiting() {
    for (std::thread& thread : waiting_) thread.join();
    waiting_.clear();
  }
  // The status of a call of any RPC, with these bytes for a request.
  grpc::Status CallByName(const std::string& path, const std::string& request) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kShortPatience));
    const grpc::Slice slice(request);
    const grpc::ByteBuffer message(&slice, 1);
    const auto call = stub.PrepareUnaryCall(&context, path, message, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok) && ok);
    return status;
  }
  void AwaitBytes(size_t bytes) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (service_->bytes() != bytes) {
      ASSERT_LT(absl::Now(), deadline) << service_->bytes() << " of " << bytes;
      std::this_thread::yield();
    }
  }
  void TearDown() override {
    service_->Open();
    JoinWaiting();
    door_.reset();
    executor_.Stop();
  }

  const std::string path_ = absl::StrCat("/tmp/kvtier-queued-", getpid(), ".sock");
  ThreadExecutor executor_{"decisions"};
  TaskScope scope_{&executor_};
  std::unique_ptr<GatedService> service_;
  std::unique_ptr<RpcDoor> door_;
  Channel channel_;
  std::unique_ptr<v1::Worker::Stub> stub_;
  std::vector<std::unique_ptr<grpc::Status>> statuses_;
  std::vector<std::thread> waiting_;
};

TEST_F(QueuedServiceTest, CallsOfManyConnectionsHaveTheirOwnAnswers) {
  Serve();
  std::atomic<int> wrong = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    waiting_.emplace_back([this, i, &wrong] {
      const auto stub = v1::Worker::NewStub(NewConnection());
      for (uint32_t j = 0; j < 200; ++j) wrong += !Take(stub.get(), 1000 * i + j).ok();
    });
  }
  JoinWaiting();
  EXPECT_EQ(wrong, 0);
  AwaitBytes(0);
}

TEST_F(QueuedServiceTest, ACallThatWaitsKeepsNoOtherOneWaiting) {
  Serve();
  for (int i = 0; i < 16; ++i) MatchInBackground();
  AwaitBytes(16 * kCallBytes);
  EXPECT_TRUE(Take().ok());
  service_->Open();
  JoinWaiting();
  for (const auto& status : statuses_) EXPECT_TRUE(status->ok()) << status->error_message();
  AwaitBytes(0);
}

TEST_F(QueuedServiceTest, AFlowSeesThatItsCallerIsGone) {
  Serve();
  grpc::ClientContext context;
  waiting_.emplace_back([&] {
    v1::PrefetchResponse response;
    EXPECT_EQ(stub_->Prefetch(&context, {}, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  AwaitBytes(kCallBytes);
  context.TryCancel();
  AwaitBytes(0);
}

TEST_F(QueuedServiceTest, AFlowSeesThatItsCallersDeadlineHasPassed) {
  Serve();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(50)));
  v1::PrefetchResponse response;
  EXPECT_EQ(stub_->Prefetch(&context, {}, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  AwaitBytes(0);
}

TEST_F(QueuedServiceTest, ACallBeyondTheBytesIsRefusedAtOnceAndServedWhenOthersAreOver) {
  Serve({.bytes = kCallBytes, .duration = absl::Seconds(90)});
  MatchInBackground();
  AwaitBytes(kCallBytes);
  const grpc::Status refused = Take();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(kCallBytes)));
  service_->Open();
  AwaitBytes(0);
  EXPECT_TRUE(Take(stub_.get(), 0).ok());
}

TEST_F(QueuedServiceTest, ACallWhoseAnswerNobodyReadsMakesRoom) {
  Serve({.bytes = kCallBytes, .duration = absl::ZeroDuration()});
  testing::HalfSender silent({.socket_path = path_,
                              .rpc = "/kvtier.v1.Worker/TakeSlots",
                              .held_back = 0,
                              .reads_answers = false,
                              .most_calls = 1});
  while (service_->bytes() == 0) ASSERT_TRUE(silent.Step());
  EXPECT_EQ(Take(stub_.get(), 0).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  AwaitBytes(0);
  EXPECT_TRUE(Take(stub_.get(), 0).ok());
}

TEST_F(QueuedServiceTest, AnRpcThatIsNotServedAndARequestThatIsNoneAreRefusedAndTheNextIsServed) {
  Serve();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CallByName("/kvtier.v1.Worker/Nothing", "").error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(CallByName("/kvtier.v1.Worker/TakeSlots", "\xff\xff").error_code(),
              grpc::StatusCode::INTERNAL);
    EXPECT_TRUE(Take().ok());
  }
}

// What the callers are told is not held against gRPC here: the server hangs up behind its last
// answer, and a client that writes at that moment may lose an answer that it has not read.
TEST_F(QueuedServiceTest, ADoorThatIsShutWaitsForCallsUnderWay) {
  Serve();
  for (int i = 0; i < 4; ++i) MatchInBackground();
  AwaitBytes(4 * kCallBytes);
  const absl::Time deadline = absl::Now() + kPatience;
  std::thread shutting([&] { door_->Shutdown(deadline); });
  // New calls are not served from some moment on, and those under way go on.
  while (Take(stub_.get(), 7, kShortPatience).ok()) {
  }
  AwaitBytes(4 * kCallBytes);
  service_->Open();
  shutting.join();
  EXPECT_LT(absl::Now(), deadline);
  EXPECT_EQ(service_->bytes(), 0);
}

// A flow may hold what is destroyed next; its caller is told at the deadline all the same.
TEST_F(QueuedServiceTest, ADoorThatIsShutCutsCallsAtItsDeadlineAndWaitsForTheirFlows) {
  Serve();
  MatchInBackground();
  AwaitBytes(kCallBytes);
  absl::Notification shut;
  std::thread shutting([&] {
    door_->Shutdown(absl::Now() + absl::Milliseconds(50));
    shut.Notify();
  });
  JoinWaiting();
  EXPECT_FALSE(statuses_[0]->ok());
  EXPECT_FALSE(shut.HasBeenNotified());
  service_->Open();
  shutting.join();
  EXPECT_EQ(service_->bytes(), 0);
}

TEST_F(QueuedServiceTest, ADoorIsShutWhileCallersCallOn) {
  Serve();
  std::atomic<bool> over = false;
  std::atomic<int> answered = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    waiting_.emplace_back([&] {
      const auto stub = v1::Worker::NewStub(NewConnection());
      while (!over) answered += Take(stub.get(), 7, kShortPatience).ok();
    });
  }
  waiting_.emplace_back([&] {
    while (!over) CallByName("/kvtier.v1.Worker/Nothing", "");
  });
  const absl::Time deadline = absl::Now() + kPatience;
  while (answered < 100 && absl::Now() < deadline) std::this_thread::yield();
  door_->Shutdown(absl::Now());
  over = true;
  JoinWaiting();
  EXPECT_GE(answered, 100);
  EXPECT_EQ(service_->bytes(), 0);
}

}  // namespace
}  // namespace kvtier
