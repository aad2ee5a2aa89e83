#include "tier_gpu/pool_ledger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using State = PoolLedger::SlotState;

constexpr uint64_t kSlot = uint64_t{64} << 10;
constexpr size_t kSlots = 2 * kRegionGranularity / kSlot;
constexpr size_t kFirstSlotEntry = 4096 + kMaxLedgerWorkers * 64;
constexpr size_t kSlotEntryBytes = 128;

BlockMeta MetaOf(uint64_t number, bool has_parent = true) {
  BlockMeta meta{.key = {number, ~number}, .length = kSlot - 7, .sum = {number + 1, number + 2}};
  if (has_parent) meta.parent = BlockKey{number - 1, 5};
  meta.space.bytes.fill(static_cast<uint8_t>(number));
  return meta;
}

class PoolLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "kvtier-ledger-XXXXXX");
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    place_.path = directory_ + "/gpu-pool.ledger";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<PoolLedger> Create() {
    auto ledger = *PoolLedger::Create(place_);
    ledger->Resize(2, kSlots);
    return ledger;
  }
  void Overwrite(size_t offset, const std::string& bytes) {
    const int fd = open(place_.path.c_str(), O_RDWR);
    KVT_CHECK(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
              static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
  absl::Status OpenStatus() { return PoolLedger::Open(place_).status(); }

  std::string directory_;
  PoolLedger::Place place_{
      .terms = {.tenant = "acme",
                .device = "emulated",
                .shape = {.handle_bytes = kRegionGranularity, .max_handles = 3},
                .slot_bytes = kSlot,
                .pool_bytes = 2 * kRegionGranularity},
      .scope = {.boot = "this boot", .pid_namespace = 77}};
};

TEST_F(PoolLedgerTest, WhatWasWrittenIsReadAgain) {
  auto ledger = Create();
  ledger->HandOut(0);
  ledger->Publish(0, MetaOf(100));
  ledger->HandOut(1);
  ledger->HandOut(2);
  ledger->Publish(2, MetaOf(200, /*has_parent=*/false));
  ledger->HandOut(3);
  ledger->Free(3);
  const uint64_t incarnation = ledger->incarnation();
  ledger = nullptr;

  const auto again = *PoolLedger::Open(place_);
  EXPECT_EQ(again->incarnation(), incarnation);
  EXPECT_NE(incarnation, 0u);
  EXPECT_EQ(again->handles(), 2u);
  ASSERT_EQ(again->slots(), kSlots);
  const PoolLedger::Slot first = again->slot(0);
  ASSERT_EQ(first.state, State::kPublished);
  EXPECT_EQ(first.meta.key, MetaOf(100).key);
  EXPECT_EQ(first.meta.parent, MetaOf(100).parent);
  EXPECT_EQ(first.meta.space, MetaOf(100).space);
  EXPECT_EQ(first.meta.length, MetaOf(100).length);
  EXPECT_EQ(first.meta.sum, MetaOf(100).sum);
  EXPECT_EQ(again->slot(1).state, State::kHandedOut);
  EXPECT_EQ(again->slot(2).meta.parent, std::nullopt);
  EXPECT_EQ(again->slot(3).state, State::kFree);
  EXPECT_EQ(again->slot(kSlots - 1).state, State::kFree);
}

TEST_F(PoolLedgerTest, AnEntryThatIsNotWholeIsASlotThatWasHandedOut) {
  auto ledger = Create();
  ledger->HandOut(5);
  ledger->Publish(5, MetaOf(100));
  ledger = nullptr;
  const size_t entry = kFirstSlotEntry + 5 * kSlotEntryBytes;
  // Every byte that counts: the last 24 of an entry do not.
  for (size_t byte = 0; byte < kSlotEntryBytes - 24; ++byte) {
    const int fd = open(place_.path.c_str(), O_RDWR);
    char was = 0;
    ASSERT_EQ(pread(fd, &was, 1, static_cast<off_t>(entry + byte)), 1);
    close(fd);
    Overwrite(entry + byte, std::string(1, static_cast<char>(was ^ 0x10)));
    EXPECT_EQ((*PoolLedger::Open(place_))->slot(5).state, State::kHandedOut) << byte;
    Overwrite(entry + byte, std::string(1, was));
  }
  EXPECT_EQ((*PoolLedger::Open(place_))->slot(5).state, State::kPublished);
}

// Kill -9 between any two stores of Publish(): the fields of the new block are there,
// those of the block before it too, and the state is not.
TEST_F(PoolLedgerTest, ABlockIsThereOnlyWithItsLastStore) {
  auto ledger = Create();
  ledger->HandOut(5);
  ledger->Publish(5, MetaOf(100));
  ledger->HandOut(5);
  EXPECT_EQ((*PoolLedger::Open(place_))->slot(5).state, State::kHandedOut);
  ledger->Publish(5, MetaOf(200));
  EXPECT_EQ((*PoolLedger::Open(place_))->slot(5).meta.key, MetaOf(200).key);
}

TEST_F(PoolLedgerTest, AnotherPoolsLedgerIsRefusedByWhatDiffers) {
  ASSERT_NE(Create(), nullptr);
  const PoolLedger::Place ours = place_;
  const auto expect = [&](const char* differs) {
    EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(OpenStatus().message()),
                HasSubstr(absl::StrCat("is of another ", differs)));
    place_ = ours;
  };
  place_.scope.boot = "the next boot";
  expect("boot");
  place_.terms.tenant = "acme2";
  expect("tenant");
  place_.terms.device = "a GPU";
  expect("device");
  place_.terms.slot_bytes = 2 * kSlot;
  expect("slot size");
  place_.terms.pool_bytes -= kSlot;
  expect("pool size");
  place_.terms.shape.max_handles = 4;
  expect("pool size");
  EXPECT_EQ(OpenStatus(), absl::OkStatus());
}

TEST_F(PoolLedgerTest, WhatIsNoLedgerIsDataLossAndNothingIsNotFound) {
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kNotFound);
  ASSERT_NE(Create(), nullptr);
  Overwrite(16, "x");  // The incarnation: below the header's sum.
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
  ASSERT_NE(Create(), nullptr);
  ASSERT_EQ(truncate(place_.path.c_str(), kFirstSlotEntry), 0);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(truncate(place_.path.c_str(), 100), 0);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
}

// The agent was killed before it had a pool.
TEST_F(PoolLedgerTest, ALedgerWithoutSlotsIsOfNoPool) {
  ASSERT_TRUE(PoolLedger::Create(place_).ok());
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PoolLedgerTest, ANewLedgerIsOfAnotherIncarnationAndItsOwnersAlone) {
  const uint64_t first = Create()->incarnation();
  auto second = Create();
  EXPECT_NE(first, second->incarnation());
  EXPECT_LT(second->incarnation(), uint64_t{1} << 62);
  struct stat facts{};
  ASSERT_EQ(stat(place_.path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  second->Discard();
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kNotFound);
}

TEST_F(PoolLedgerTest, WhereNothingCanBeWrittenThereIsNoLedger) {
  place_.path = directory_ + "/missing/gpu-pool.ledger";
  const absl::Status status = PoolLedger::Create(place_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(place_.path));
}

TEST_F(PoolLedgerTest, WorkersAreKnownByProcessAndPage) {
  auto ledger = Create();
  const size_t first = *ledger->AddWorker({.pid = 12, .started = 34}, {.device = 1, .inode = 2});
  const size_t second = *ledger->AddWorker({.pid = 13, .started = 35}, {.device = 1, .inode = 3});
  const size_t idle = *ledger->AddWorker({.pid = 14, .started = 36}, {.device = 1, .inode = 4});
  ledger->GiveSlots(first);
  ledger->GiveSlots(second);
  ledger->RemoveWorker(first);
  ledger->SetSilentSessions(4);
  ledger->SetAgent({.pid = 99, .started = 98});
  ledger = nullptr;
  const auto again = *PoolLedger::Open(place_);
  ASSERT_THAT(again->Workers(), SizeIs(2));
  EXPECT_EQ(again->Workers()[1].place, idle);
  EXPECT_FALSE(again->Workers()[1].has_slots);
  EXPECT_TRUE(again->Workers()[0].has_slots);
  EXPECT_EQ(again->Workers()[0].place, second);
  EXPECT_EQ(again->Workers()[0].process, (ProcessId{.pid = 13, .started = 35}));
  EXPECT_EQ(again->Workers()[0].page, (PageId{.device = 1, .inode = 3}));
  EXPECT_EQ(again->silent_sessions(), 4u);
  EXPECT_EQ(again->agent(), (ProcessId{.pid = 99, .started = 98}));
}

TEST_F(PoolLedgerTest, NumbersOfAnotherPidNamespaceNameNobody) {
  ASSERT_TRUE(Create()->AddWorker({.pid = 12, .started = 34}, {}).ok());
  place_.scope.pid_namespace = 78;
  const auto again = *PoolLedger::Open(place_);
  EXPECT_EQ(again->Workers()[0].process.pid, 0);
  EXPECT_EQ(again->agent().pid, 0);
}

TEST_F(PoolLedgerTest, OnlySoManyWorkersAreWrittenDown) {
  const auto ledger = Create();
  for (size_t i = 0; i < kMaxLedgerWorkers; ++i) {
    ASSERT_EQ(*ledger->AddWorker({.pid = 1}, {}), i);
  }
  EXPECT_EQ(ledger->AddWorker({.pid = 1}, {}).status().code(),
            absl::StatusCode::kResourceExhausted);
  ledger->RemoveWorker(7);
  EXPECT_EQ(*ledger->AddWorker({.pid = 1}, {}), 7u);
}

TEST_F(PoolLedgerTest, APageIsTheSameByEveryDescriptor) {
  const int fd = open(directory_.c_str(), O_RDONLY);
  const int same = dup(fd);
  EXPECT_EQ(*PageIdOf(fd), *PageIdOf(same));
  close(fd);
  close(same);
  EXPECT_EQ(PageIdOf(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvtier
