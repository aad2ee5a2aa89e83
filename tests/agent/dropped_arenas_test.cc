// Tests what becomes of a dropped tenant's arena, with the real threads of an agent in this
// process: it is unmapped and its descriptors are closed, and nothing that still has them gets
// another tenant's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/agent.h"
#include "agent/limits.h"
#include "agent/services/session_calls.h"
#include "core/byte_threads.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/thread_executor.h"
#include "tests/testing/blocks.h"
#include "tests/testing/fake_tenant_store.h"
#include "tests/testing/patience.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using testing::Patience;

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kSlabBytes = 4 * kBlockBytes;
constexpr int kDrops = 20;
constexpr absl::Duration kLimit = absl::Seconds(20);

// Returns how many mappings of this process are of the tenant's arena.
size_t MappingsOf(const std::string& tenant) {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += absl::StrContains(line, absl::StrCat("/memfd:kvtier-", tenant)) ? 1 : 0;
  }
  return count;
}

// Returns what the descriptor is of, as the kernel names it; empty: it is closed.
std::string NameOf(int fd) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd), error).string();
}

// Returns how many descriptors of this process are of the tenant's arena.
size_t DescriptorsOf(const std::string& tenant) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    count += absl::StrContains(NameOf(fd), absl::StrCat("/memfd:kvtier-", tenant)) ? 1 : 0;
  }
  return count;
}

// SlowThreads do the work of others after a time.
class SlowThreads final : public ByteThreads {
 public:
  explicit SlowThreads(ByteThreads* threads) : threads_(threads) {}
  Task<void> Run(Work work) override {
    Work later = [work = std::move(work), wait = absl::Milliseconds(wait_ms.load())]() mutable {
      absl::SleepFor(wait);
      work();
    };
    co_await threads_->Run(std::move(later));
  }
  std::atomic<int> wait_ms = 0;

 private:
  ByteThreads* const threads_;
};

// The parameter says whether host memory moves between tenants.
class DroppedArenasTest : public ::testing::TestWithParam<HostMemory> {
 protected:
  void SetUp() override {
    const std::vector<TenantTable::Entry> tenants = {
        {.name = "stays", .secret = SecretOf("stays")}};
    store_.secrets = {{"stays", SecretOf("stays")}};
    Agent::Options options{.node = *NodeId::FromString("drops"),
                           .epoch = {7},
                           .address = "drops:7400",
                           .tenants = *TenantTable::Create(tenants),
                           .host_bytes = 16 * kSlabBytes,
                           .slab_bytes = kSlabBytes,
                           .host_memory = GetParam()};
    agent_ = *Agent::Create(
        std::move(options),
        {.executor = &executor_, .byte_threads = &bytes_, .memory = &memory_, .tenants = &store_});
    KVT_CHECK(AwaitOn(&executor_, agent_->scope(), agent_->Start()).ok());
    calls_.emplace(SessionCalls(agent_.get()));
  }
  void TearDown() override {
    TaskScope stopping(&executor_);
    EXPECT_TRUE(AwaitOn(&executor_, &stopping, agent_->Stop(executor_.Now() + Patience(kLimit))));
    executor_.Stop();
  }

  static std::string SecretOf(const std::string& tenant) {
    return absl::StrCat("the secret of ", tenant);
  }
  // Makes the tenant as soon as its name is free.
  absl::Status Make(const std::string& tenant) {
    const absl::Time limit = executor_.Now() + Patience(kLimit);
    while (true) {
      const absl::Status made = AwaitOn(&executor_, agent_->scope(),
                                        agent_->tenants().Set({.name = tenant}, SecretOf(tenant)));
      if (!absl::IsFailedPrecondition(made) || executor_.Now() > limit) return made;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  absl::Status Drop(const std::string& tenant) {
    return AwaitOn(&executor_, agent_->scope(), agent_->tenants().Drop(tenant)).status();
  }
  // Waits until nothing of the dropped tenant's arena is left.
  bool AwaitGone(const std::string& tenant) {
    const absl::Time limit = executor_.Now() + Patience(kLimit);
    while (MappingsOf(tenant) + DescriptorsOf(tenant) > 0) {
      if (executor_.Now() > limit) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }
  SessionId Open(const std::string& tenant) {
    const SessionToken token{static_cast<uint8_t>(++opened_)};
    const SessionTenants of = CallOn(
        &executor_, [&] { return SessionTenants::Own(*agent_->options().tenants.Find(tenant)); });
    const SessionId session = *calls_->open(of, token);
    return CallOn(&executor_, [&] {
      KVT_CHECK(agent_->sessions().table().AddSpace(session, testing::TestSpace(kBlockBytes)).ok());
      return session;
    });
  }
  // Asks for a descriptor of the arena, as the socket does before it answers a worker.
  DescriptorSocket::Shared Share(SessionId session, wire::DescriptorKind kind) {
    return *calls_->share({.session = session, .kind = kind});
  }

  testing::FakeTenantStore store_;
  ThreadExecutor executor_{"decisions"};
  BytePool bytes_{&executor_, "bytes", 2};
  BytePool memory_threads_{&executor_, "host-memory", 2};
  SlowThreads memory_{&memory_threads_};
  std::unique_ptr<Agent> agent_;
  std::optional<DescriptorSocket::Calls> calls_;
  int opened_ = 0;
};

// Once, 614 drops cost 80 GiB of addresses and 1,230 descriptors.
TEST_P(DroppedArenasTest, EachDropGivesItsAddressesAndDescriptorsBack) {
  for (int drop = 0; drop < kDrops; ++drop) {
    ASSERT_EQ(Make("goes"), absl::OkStatus());
    const SessionId session = Open("goes");
    EXPECT_EQ(MappingsOf("goes"), 1);
    EXPECT_EQ(DescriptorsOf("goes"), 2);
    ASSERT_EQ(Drop("goes"), absl::OkStatus());
    ASSERT_TRUE(AwaitGone("goes")) << "drop " << drop;
    EXPECT_FALSE(calls_->close(session));
  }
  EXPECT_EQ(MappingsOf("stays"), 1);
  CallOn(&executor_, [this] {
    agent_->Audit();
    return true;
  });
}

// The first slab is enough for a tenant to be made; the others are filled beside its drop.
TEST_P(DroppedArenasTest, ADropBesideTheFillingOfItsMemoryWaitsForIt) {
  memory_.wait_ms = 100;
  ASSERT_EQ(Make("goes"), absl::OkStatus());
  ASSERT_EQ(Drop("goes"), absl::OkStatus());
  EXPECT_TRUE(AwaitGone("goes"));
}

// An answer to a worker may be on its way while its tenant is dropped.
TEST_P(DroppedArenasTest, ADescriptorOnItsWayToAWorkerIsNeverAnothersArena) {
  ASSERT_EQ(Make("goes"), absl::OkStatus());
  const SessionId session = Open("goes");
  std::vector<DescriptorSocket::Shared> on_their_way;
  for (const auto kind : {wire::DescriptorKind::kArenaRead, wire::DescriptorKind::kArenaWrite}) {
    on_their_way.push_back(Share(session, kind));
  }
  ASSERT_EQ(Drop("goes"), absl::OkStatus());
  const absl::Time limit = executor_.Now() + Patience(kLimit);
  while (MappingsOf("goes") > 0) {
    ASSERT_LT(executor_.Now(), limit);
    absl::SleepFor(absl::Milliseconds(5));
  }
  for (const char* next : {"next", "after"}) ASSERT_EQ(Make(next), absl::OkStatus());
  for (const DescriptorSocket::Shared& shared : on_their_way) {
    EXPECT_THAT(NameOf(shared.fd), HasSubstr("/memfd:kvtier-goes"));
    void* const mapped = mmap(nullptr, shared.bytes, PROT_READ, MAP_SHARED, shared.fd, 0);
    EXPECT_NE(mapped, MAP_FAILED) << "the worker maps it, and gets zeros and an ended session";
    if (mapped != MAP_FAILED) munmap(mapped, shared.bytes);
    if (shared.duplicated) close(shared.fd);
  }
  calls_->close(session);
}

// Memory that is held stays mapped, and readable, until it is released.
TEST_P(DroppedArenasTest, AnArenaStaysAsLongAsABlockOfItIsHeld) {
  ASSERT_EQ(Make("goes"), absl::OkStatus());
  const SessionId session = Open("goes");
  const DomainId domain =
      CallOn(&executor_, [&] { return agent_->options().tenants.Find("goes")->domain; });
  std::optional<HostSlot> held = CallOn(&executor_, [&] {
    return std::optional(
        *agent_->evictor().ReserveHost(domain, {.length = kBlockBytes, .slot_bytes = kBlockBytes}));
  });
  ASSERT_EQ(Drop("goes"), absl::OkStatus());
  absl::SleepFor(3 * kSweepInterval);
  EXPECT_EQ(MappingsOf("goes"), 1);
  held->bytes()[0] = std::byte{1};
  CallOn(&executor_, [&] {
    held.reset();
    return true;
  });
  EXPECT_TRUE(AwaitGone("goes"));
  calls_->close(session);
}

INSTANTIATE_TEST_SUITE_P(HostMemory, DroppedArenasTest,
                         ::testing::Values(HostMemory::kFixed, HostMemory::kMoving),
                         [](const auto& each) {
                           return each.param == HostMemory::kFixed ? "Fixed" : "Moving";
                         });

}  // namespace
}  // namespace kvtier
