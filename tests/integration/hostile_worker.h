// HostileWorkerTest has a hostile worker, which sends raw packets and RPCs, and a worker of another
// tenant, which must not notice. KVTIER_HOSTILE_TRIES says how often each kind of garbage is sent
// (300).
#ifndef KVTIER_TESTS_INTEGRATION_HOSTILE_WORKER_H_
#define KVTIER_TESTS_INTEGRATION_HOSTILE_WORKER_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kvtier/v1/worker.grpc.pb.h"
#include "proto/convert.h"
#include "tests/integration/raw_session.h"
#include "tests/testing/blocks.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::testing {

inline constexpr char kVictimSecret[] = "the victim's secret, long enough";
inline constexpr char kHostileSecret[] = "the hostile tenant's own secret!";
inline constexpr Blocks kHot = {.first = 100, .count = 16};
inline constexpr uint64_t kHotBytes = uint64_t{64} << 10;
inline constexpr uint64_t kSmallBytes = 4096;
inline constexpr absl::Duration kPatience = absl::Seconds(20);

inline size_t Tries() { return FromEnvironment("KVTIER_HOSTILE_TRIES", 300); }

// Bystander gets its own blocks all the time, and fails the test when one is missing or wrong.
class Bystander {
 public:
  explicit Bystander(const TestWorkerOptions& options) : worker_(options) {
    EXPECT_EQ(worker_.Put(kHot), kHot.count);
    thread_ = std::thread([this] { Run(); });
  }
  ~Bystander() {
    stop_ = true;
    thread_.join();
    EXPECT_GT(rounds_, 0);
  }
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;
  TestWorker& worker() { return worker_; }
  // Waits until a get that begins after this call has ended.
  void AwaitServed() const {
    const uint64_t before = rounds_;
    EXPECT_TRUE(Await(kPatience, [&] { return rounds_ > before + 1; }));
  }

 private:
  void Run() {
    while (!stop_) {
      EXPECT_THAT(worker_.Get(kHot), ::testing::SizeIs(kHot.count));
      ++rounds_;
    }
  }
  TestWorker worker_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::thread thread_;
};

class HostileWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(SayHello(session_.get()));
    v1::RegisterSpaceRequest request;
    request.set_session_token(token_);
    *request.mutable_space() = convert::ToWire(TestSpace(kSmallBytes));
    v1::RegisterSpaceResponse response;
    ASSERT_TRUE(Call(&v1::Worker::Stub::RegisterSpace, request, &response).ok());
    space_id_ = response.space_id();
  }
  void TearDown() override {
    bystander_.AwaitServed();
    EXPECT_EQ(agent_.Status().altered_blocks(), altered_);
    // The agent survived.
    EXPECT_TRUE(agent_.process().Running());
  }

  // Opens a session of the hostile tenant. Later requests carry its token.
  bool SayHello(RawSession* session) {
    const auto welcome = session->Say(session->GoodHello("hostile", kHostileSecret));
    if (!welcome || welcome->code != wire::WelcomeCode::kOk) return false;
    token_ = TokenText(*welcome);
    return true;
  }
  template <typename Method, typename Request, typename Response>
  grpc::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    SetCallDeadline(&context);
    return (stub_.get()->*method)(&context, request, response);
  }
  // Returns a request of this session for keys [first, first + count) of the hostile worker's
  // space.
  template <typename Request>
  Request RequestOf(uint64_t first, size_t count) const {
    Request request;
    request.set_session_token(token_);
    v1::Sequence* const sequence = request.add_sequences();
    sequence->set_space_id(space_id_);
    sequence->set_set(true);
    for (uint64_t number = first; number < first + count; ++number) {
      AddWireKey(TestEngineKey(number).bytes(), sequence);
    }
    return request;
  }
  // Reserves slots; returns the ids of the reservations that the agent granted.
  std::vector<uint64_t> Reserve(uint64_t first, size_t count) {
    auto request = RequestOf<v1::ReserveRequest>(first, count);
    request.set_target(v1::TIER_HOST);
    v1::ReserveResponse response;
    EXPECT_TRUE(Call(&v1::Worker::Stub::Reserve, request, &response).ok());
    std::vector<uint64_t> ids;
    for (const v1::ReservedBlock& block : response.blocks()) {
      if (block.state() == v1::ReservedBlock::RESERVED) ids.push_back(block.reservation_id());
    }
    return ids;
  }
  // Puts blocks with the bytes that happen to be in their slots.
  void PutAnything(uint64_t first, size_t count) {
    v1::CommitRequest commit;
    commit.set_session_token(token_);
    for (const uint64_t id : Reserve(first, count)) commit.add_reservation_ids(id);
    v1::CommitResponse committed;
    ASSERT_TRUE(Call(&v1::Worker::Stub::Commit, commit, &committed).ok());
    ASSERT_EQ(committed.committed_blocks(), count);
  }
  std::string Noise(size_t bytes) {
    std::string noise(bytes, '\0');
    for (char& byte : noise) byte = static_cast<char>(random_());
    return noise;
  }
  static std::span<const std::byte> AsBytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }

  std::mt19937_64 random_{TestSeed()};
  ProcessCluster cluster_;
  const std::string tenants_dir_ =
      cluster_.WriteTenants({{"victim", kVictimSecret}, {"hostile", kHostileSecret}});
  AgentProcess& agent_ = cluster_.StartAgent(
      "node", {{"host_bytes", "64MiB"}, {"slab_bytes", "1MiB"}, {"tenants_dir", tenants_dir_}});
  const std::shared_ptr<grpc::Channel> channel_ = WorkerChannel(agent_.socket_dir());
  const std::unique_ptr<v1::Worker::Stub> stub_ = v1::Worker::NewStub(channel_);
  std::unique_ptr<RawSession> session_ = std::make_unique<RawSession>(agent_.socket_dir());
  std::string token_;
  uint32_t space_id_ = 0;
  uint64_t altered_ = 0;  // Altered blocks that the agent must have counted by the end.
  Bystander bystander_{{.socket_dir = agent_.socket_dir(),
                        .tenant = "victim",
                        .secret = kVictimSecret,
                        .block_bytes = kHotBytes}};
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_INTEGRATION_HOSTILE_WORKER_H_
