// Offers of a lost pool, with the client's own words: what is taken, and how each that is
// not is refused.
#include "agent/sessions/pool_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/lost_pool.h"
#include "client/pool_offer.h"
#include "core/clock.h"
#include "tests/testing/patience.h"
#include "tier_gpu/device/emulated_region.h"
#include "tier_gpu/step_words.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr RegionShape kShape = {.handle_bytes = kRegionGranularity, .max_handles = 3};

// A pool of two handles, and a worker that lost it.
class PoolSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "kvtier-pool-XXXXXX");
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ledger_ = *PoolLedger::Create({.path = directory_ + "/ledger",
                                   .terms = {.tenant = "acme",
                                             .shape = kShape,
                                             .slot_bytes = 4096,
                                             .pool_bytes = 2 * kRegionGranularity}});
    ledger_->Resize(2, 1024);
    region_ = *EmulatedRegion::Reserve(kShape, nullptr);
    page_ = *SignalPage::Create();
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(region_->Grow(), absl::OkStatus());
      lost_.handles.emplace_back(dup(region_->descriptor(i)));
    }
    lost_.handle_bytes = kShape.handle_bytes;
    lost_.max_handles = kShape.max_handles;
    lost_.steps = *StepPage::Map(FileDescriptor(dup(page_->descriptor())));
    lost_.incarnation = ledger_->incarnation();
    options_ = {.path = absl::StrCat(directory_, "/", wire::kPoolSocketName),
                .allowed_uids = {getuid()},
                .tenants = *TenantTable::Create({{.name = "acme", .secret = kSecret},
                                                 {.name = "other", .secret = kOtherSecret}}),
                .ledger = ledger_.get()};
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static absl::Time Soon() { return MonotonicClock().Now() + testing::Patience(absl::Seconds(10)); }
  SessionOptions WorkerOf(const std::string& tenant = "acme",
                          const std::string& secret = kSecret) const {
    return {
        .socket_dir = directory_, .tenant = tenant, .tenant_key = TenantKey::FromSecret(secret)};
  }
  // Offers what the worker lost, as `tenant`, while an agent waits; the client's answer.
  absl::Status Offer(const std::string& tenant = "acme", const std::string& secret = kSecret) {
    absl::Status offered;
    WhileAnAgentWaits([&] { offered = OfferPool(WorkerOf(tenant, secret), lost_, Soon()); });
    return offered;
  }
  // What it was brought is in taken_ and pages_.
  void WhileAnAgentWaits(const std::function<void()>& offer, bool takes_fewer = false) {
    const auto socket = *PoolSocket::Listen(options_);
    if (takes_fewer) socket->TakeFewer();
    std::atomic<bool> ended = false;
    std::thread worker([&] {
      offer();
      ended = true;
    });
    const auto import = [&](std::span<const int> handles) {
      taken_.clear();
      imported_ = *EmulatedRegion::Reserve(kShape, nullptr);
      for (const int handle : handles) {
        if (absl::Status grown = imported_->GrowBy(handle); !grown.ok()) return grown;
        taken_.push_back(handle);
      }
      return absl::OkStatus();
    };
    brought_ = false;
    while (!ended && !brought_) {
      brought_ = socket->AwaitPool(MonotonicClock().Now() + absl::Milliseconds(20), import);
    }
    worker.join();
    pages_ = socket->pages();
  }
  // The same memory, as another session had it.
  std::shared_ptr<const GpuMemory> LostBy(const SignalPage& page) const {
    auto lost = std::make_shared<GpuMemory>();
    for (const FileDescriptor& handle : lost_.handles)
      lost->handles.emplace_back(dup(handle.get()));
    lost->handle_bytes = lost_.handle_bytes;
    lost->max_handles = lost_.max_handles;
    lost->steps = *StepPage::Map(FileDescriptor(dup(page.descriptor())));
    lost->incarnation = lost_.incarnation;
    return lost;
  }

  static constexpr char kSecret[] = "sixteen bytes or more";
  static constexpr char kOtherSecret[] = "sixteen bytes of others";
  std::string directory_;
  std::unique_ptr<PoolLedger> ledger_;
  std::unique_ptr<EmulatedRegion> region_;
  std::unique_ptr<SignalPage> page_;
  GpuMemory lost_;
  PoolSocket::Options options_;
  std::unique_ptr<EmulatedRegion> imported_;
  std::vector<int> taken_;
  std::vector<OfferedPage> pages_;
  bool brought_ = false;
};

TEST_F(PoolSocketTest, TheMemoryThatIsTakenIsTheMemoryThatWasLost) {
  region_->address()[kRegionGranularity] = std::byte{9};
  ASSERT_EQ(Offer(), absl::OkStatus());
  EXPECT_TRUE(brought_);
  EXPECT_THAT(taken_, SizeIs(2));
  EXPECT_EQ(imported_->address()[kRegionGranularity], std::byte{9});
  ASSERT_THAT(pages_, SizeIs(1));
  EXPECT_EQ(pages_[0].id, *PageIdOf(page_->descriptor()));
  lost_.steps->SetOver();
  EXPECT_EQ(pages_[0].page->word(static_cast<size_t>(StepWord::kOver))->load(), 1u);
}

TEST_F(PoolSocketTest, AWorkerThatMapsAPartTellsOfItsStepsOnly) {
  lost_.handles.pop_back();
  EXPECT_EQ(Offer(), absl::OkStatus());
  EXPECT_FALSE(brought_);
  EXPECT_THAT(pages_, SizeIs(1));
}

// The pool grew and its agent was killed before anybody mapped what came.
TEST_F(PoolSocketTest, WhatAWorkerMapsOfItIsTakenIfNobodyMapsMore) {
  lost_.handles.pop_back();
  WhileAnAgentWaits([&] { EXPECT_EQ(OfferPool(WorkerOf(), lost_, Soon()), absl::OkStatus()); },
                    /*takes_fewer=*/true);
  EXPECT_TRUE(brought_);
  EXPECT_THAT(taken_, SizeIs(1));
}

// It shrank, and the worker had no time to let go.
TEST_F(PoolSocketTest, OfAWorkerThatMapsMoreTheHandlesOfThePoolAreTaken) {
  ASSERT_EQ(region_->Grow(), absl::OkStatus());
  lost_.handles.emplace_back(dup(region_->descriptor(2)));
  EXPECT_EQ(Offer(), absl::OkStatus());
  EXPECT_TRUE(brought_);
  EXPECT_THAT(taken_, SizeIs(2));
}

TEST_F(PoolSocketTest, AHandleWithoutASlotIsNotWaitedFor) {
  ledger_->Resize(2, 512);
  lost_.handles.pop_back();
  EXPECT_EQ(Offer(), absl::OkStatus());
  EXPECT_THAT(taken_, SizeIs(1));
}

TEST_F(PoolSocketTest, AnotherIncarnationOrShapeIsRefused) {
  ++lost_.incarnation;
  EXPECT_EQ(Offer().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Offer().message()), HasSubstr("another"));
  --lost_.incarnation;
  lost_.max_handles = 4;
  EXPECT_EQ(Offer().code(), absl::StatusCode::kFailedPrecondition);
  lost_.max_handles = 3;
  lost_.handle_bytes *= 2;
  EXPECT_EQ(Offer().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(pages_, SizeIs(0));
  lost_.handle_bytes /= 2;
  EXPECT_EQ(Offer(), absl::OkStatus());
}

TEST_F(PoolSocketTest, OnlyTheTenantWhosePoolItIsMayOffer) {
  EXPECT_EQ(Offer("other", kOtherSecret).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Offer("acme", kOtherSecret).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Offer("nobody", kSecret).code(), absl::StatusCode::kPermissionDenied);
  options_.allowed_uids = {getuid() + 1};
  EXPECT_EQ(Offer().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(brought_);
  EXPECT_THAT(pages_, SizeIs(0));
}

TEST_F(PoolSocketTest, DescriptorsThatAreNotOfSuchMemoryAreRefused) {
  const auto larger = *EmulatedRegion::Reserve({.handle_bytes = 2 * kRegionGranularity}, nullptr);
  ASSERT_EQ(larger->Grow(), absl::OkStatus());
  lost_.handles[1] = FileDescriptor(dup(larger->descriptor(0)));
  EXPECT_EQ(Offer().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(brought_);
}

TEST_F(PoolSocketTest, WithoutAnAgentThatAsksNothingIsOffered) {
  EXPECT_EQ(OfferPool({.socket_dir = directory_, .tenant = "acme"}, lost_, Soon()).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(PoolSocketTest, AnAgentThatHasItsPoolTakesThePageAlone) {
  const auto socket = *PoolSocket::Listen(options_);
  absl::Notification came;
  OfferedPage page;
  socket->Serve({.offered =
                     [&](OfferedPage offered) {
                       page = std::move(offered);
                       came.Notify();
                     },
                 .gone = [](size_t) {}});
  EXPECT_EQ(OfferPool(WorkerOf(), lost_, Soon()), absl::OkStatus());
  came.WaitForNotification();
  EXPECT_EQ(page.id, *PageIdOf(page_->descriptor()));
}

TEST_F(PoolSocketTest, AUseOfBeforeIsToldWithoutTheMemory) {
  absl::Status offered;
  WhileAnAgentWaits([&] { offered = OfferPage(WorkerOf(), PageOf(lost_), Soon()); });
  EXPECT_EQ(offered, absl::OkStatus());
  EXPECT_FALSE(brought_);
  ASSERT_THAT(pages_, SizeIs(1));
  EXPECT_EQ(pages_[0].id, *PageIdOf(page_->descriptor()));
}

// The agent that was handed the pool died before it served, and the next one too soon to see
// that the first session was over.
TEST_F(PoolSocketTest, EachAgentThatAsksIsToldOfEachUse) {
  const auto later = *SignalPage::Create();
  const absl::Time now = MonotonicClock().Now();
  LostPool lost;
  const auto offer = [&] {
    bool handed = false;
    WhileAnAgentWaits([&] { handed = lost.Offer(WorkerOf(), now, Soon()); });
    EXPECT_TRUE(brought_);
    return handed;
  };
  lost.Keep(LostBy(*page_), now);
  EXPECT_TRUE(offer());
  EXPECT_FALSE(offer()) << "the agent it was handed to first did not serve yet";
  EXPECT_THAT(pages_, SizeIs(1));
  lost.LetGoOfMemory();
  lost.Keep(LostBy(*later), now);
  EXPECT_TRUE(offer());
  ASSERT_THAT(pages_, SizeIs(2));
  EXPECT_EQ(pages_[0].id, *PageIdOf(page_->descriptor()));
  EXPECT_EQ(pages_[1].id, *PageIdOf(later->descriptor()));
}

TEST_F(PoolSocketTest, OfMemoryOfBeforeNothingIsTold) {
  const auto later = *SignalPage::Create();
  const absl::Time now = MonotonicClock().Now();
  LostPool lost;
  --lost_.incarnation;
  lost.Keep(LostBy(*page_), now);
  lost.LetGoOfMemory();
  ++lost_.incarnation;
  lost.Keep(LostBy(*later), now);
  WhileAnAgentWaits([&] { EXPECT_TRUE(lost.Offer(WorkerOf(), now, Soon())); });
  EXPECT_THAT(pages_, SizeIs(1));
}

TEST_F(PoolSocketTest, MemoryThatNobodyAskedForIsLetGoOfAndItsUseIsNot) {
  const absl::Time now = MonotonicClock().Now();
  LostPool lost;
  const std::shared_ptr<const GpuMemory> memory = LostBy(*page_);
  lost.Keep(memory, now);
  EXPECT_FALSE(lost.Offer(WorkerOf(), now + kKeepLostPool - absl::Seconds(1), Soon()));
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_FALSE(lost.Offer(WorkerOf(), now + kKeepLostPool, Soon()));
  EXPECT_EQ(memory.use_count(), 1);
  WhileAnAgentWaits([&] { EXPECT_FALSE(lost.Offer(WorkerOf(), now + kKeepLostPool, Soon())); });
  EXPECT_FALSE(brought_);
  EXPECT_THAT(pages_, SizeIs(1));
}

TEST_F(PoolSocketTest, TheOldestUsesAreForgotten) {
  const absl::Time now = MonotonicClock().Now();
  LostPool lost;
  std::vector<std::unique_ptr<SignalPage>> pages;
  for (size_t i = 0; i < kMaxKeptPages + 2; ++i) {
    pages.push_back(*SignalPage::Create());
    lost.Keep(LostBy(*pages.back()), now);
    lost.LetGoOfMemory();
  }
  WhileAnAgentWaits([&] { lost.Offer(WorkerOf(), now, Soon()); });
  ASSERT_THAT(pages_, SizeIs(kMaxKeptPages));
  EXPECT_EQ(pages_[0].id, *PageIdOf(pages[2]->descriptor()));
}

TEST_F(PoolSocketTest, AWorkerThatEndedIsSaidToBeGone) {
  ProcessId ended = ThisProcess();
  ++ended.started;
  const size_t place = *ledger_->AddWorker(ended, {});
  const auto socket = *PoolSocket::Listen(options_);
  std::vector<size_t> gone;
  socket->Serve(
      {.offered = [](OfferedPage) {}, .gone = [&](size_t worker) { gone.push_back(worker); }});
  EXPECT_EQ(gone, std::vector<size_t>{place});
}

TEST_F(PoolSocketTest, WhoSaysNothingIsCutOffInTime) {
  const auto socket = *PoolSocket::Listen(options_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  options_.path.copy(address.sun_path, options_.path.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const auto import = [](std::span<const int>) { return absl::OkStatus(); };
  EXPECT_FALSE(socket->AwaitPool(MonotonicClock().Now() + absl::Milliseconds(50), import));
  wire::Challenge challenge;
  EXPECT_EQ(recv(fd, &challenge, sizeof(challenge), 0), static_cast<ssize_t>(sizeof(challenge)));
  EXPECT_EQ(recv(fd, &challenge, sizeof(challenge), 0), 0) << "the agent hung up";
  close(fd);
}

TEST_F(PoolSocketTest, WhatCannotBeBoundIsUnavailable) {
  options_.path = directory_ + "/missing/pool.sock";
  EXPECT_EQ(PoolSocket::Listen(options_).status().code(), absl::StatusCode::kUnavailable);
  options_.path = std::string(200, 'x');
  EXPECT_EQ(PoolSocket::Listen(options_).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kvtier
