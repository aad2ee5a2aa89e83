// Tests the transport over real gRPC, with a peer all of whose threads are at work.
#include "agent/peers/grpc_peer_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/thread_executor.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace kvtier {
namespace {

constexpr int kThreads = 4;  // Threads that the peer has for its calls.
constexpr size_t kFetches = 12;

// Peer whose calls wait until they are let go.
class WaitingPeer final : public v1::Peer::Service {
 public:
  WaitingPeer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetResourceQuota(grpc::ResourceQuota("test").SetMaxThreads(kThreads));
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KVT_CHECK(server_ != nullptr);
  }
  ~WaitingPeer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void LetGo() { go_.Notify(); }

  grpc::Status Fetch(grpc::ServerContext* /*context*/, const v1::FetchRequest* /*request*/,
                     grpc::ServerWriter<v1::FetchChunk>* /*writer*/) override {
    go_.WaitForNotification();
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  absl::Notification go_;
  std::unique_ptr<grpc::Server> server_;
};

class NoSink final : public FetchSink {
 public:
  std::span<std::byte> Begin(size_t /*index*/, const BlockProof& /*proof*/) override { return {}; }
  void Arrived(size_t /*index*/) override {}
};

// Once, such a peer was taken for one that failed, and avoided.
TEST(GrpcPeerTransportTest, APeerThatHasNoThreadForACallIsBusy) {
  WaitingPeer peer;
  ThreadExecutor executor{"transport-test"};
  auto transport = std::make_unique<GrpcPeerTransport>(&executor, *NodeId::FromString("node-a"));
  NoSink sink;
  std::vector<absl::Status> ended(kFetches);
  std::atomic<size_t> left = kFetches;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kFetches; ++i) {
    threads.emplace_back([&, i] {
      const FetchTime time{.deadline = executor.Now() + absl::Seconds(20)};
      FetchRequest request{.names = {PeerName()}};
      ended[i] =
          AwaitOn(&executor, transport->Fetch(peer.address(), std::move(request), time, &sink));
      --left;
    });
  }
  // Those that the peer works on wait; the others end at once.
  while (left > kThreads) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  peer.LetGo();
  for (std::thread& thread : threads) thread.join();
  const auto count = [&](auto is) { return static_cast<size_t>(std::ranges::count_if(ended, is)); };
  EXPECT_GE(count(absl::IsAborted), kFetches - kThreads);
  EXPECT_EQ(count(absl::IsResourceExhausted), 0u);
  executor.Stop();
  transport.reset();
}

}  // namespace
}  // namespace kvtier
