// Kills (-9) a residency table's writer at every named place of an update, and of a growth
// (core/kill_point.h), beside a reader in another process: before and after the death each look
// ends, and no block that was there throughout is reported absent.
//
// KVTIER_KILL_ROUNDS multiplies the kills, KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/index/residency.h"
#include "core/kill_point.h"
#include "tests/agent/residency_rig.h"
#include "tests/testing/descriptor_pipe.h"
#include "tests/testing/from_environment.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {
namespace {

constexpr DomainId kDomain{0};
constexpr uint64_t kKillsPerPlace = 10;
constexpr uint64_t kKept = 1000;         // Keys from 0 that are there throughout.
constexpr uint64_t kChanging = 20000;    // Following keys, which come and go.
constexpr uint64_t kNever = 10'000'000;  // First of the keys that are never there.
constexpr uint64_t kChanges = 200'000;
// Number of the changing keys that are there before an update is broken off. The table then has its
// final size and 14 of 15 entries are taken, so many of the kept keys find no room at first.
constexpr uint64_t kCrowd = 14'000;
constexpr int kLooksAfterDeath = 5000;

uint64_t Kills() { return kKillsPerPlace * FromEnvironment("KVTIER_KILL_ROUNDS", 1); }

bool IsUpdate(std::string_view place) {
  return place.starts_with("residency.word_") || place.starts_with("residency.overflow_");
}
// Returns the largest n for a kill at the n-th hit of the place. A table is replaced only once.
uint64_t MostHits(std::string_view place) { return IsUpdate(place) ? 1000 : 1; }

// Writer adds and removes blocks and changes their tiers until there are too many for a table that
// has doubled once. It hands each table to the reader, as the table's bytes and its descriptor.
class Writer {
 public:
  Writer(int socket, uint64_t seed) : socket_(socket), random_(seed) {}

  void Run(std::string_view place, uint64_t nth) {
    const uint64_t crowd = IsUpdate(place) ? kCrowd : 0;
    for (uint64_t i = 0; i < crowd; ++i) {
      residency_.Add(kDomain, Tier::kHost, NumberedKey(kKept + i));
    }
    while (time_.Step()) continue;
    for (uint64_t i = 0; i < kKept; ++i) residency_.Add(kDomain, Tier::kHost, NumberedKey(i));
    HandOut();
    ArmKillPoint(place, nth);
    for (uint64_t i = 0; i < kChanges; ++i) {
      const uint64_t number = random_.Below(kKept + crowd + 1 + (kChanging - crowd) * i / kChanges);
      const Tier tier = number < kKept || random_.Below(2) == 0 ? Tier::kDisk : Tier::kHost;
      const ResidencyTable& table = *residency_.table(kDomain);
      if (table.Has(NumberedKey(number), tier)) {
        residency_.Remove(kDomain, tier, NumberedKey(number));
      } else {
        residency_.Add(kDomain, tier, NumberedKey(number));
      }
      if (i % 16 == 0) time_.Step();
      HandOut();
    }
  }

 private:
  void HandOut() {
    const SealedMemory& memory = residency_.table(kDomain)->memory();
    if (&memory == handed_out_) return;
    handed_out_ = &memory;
    SendShapeAndDescriptors(socket_, {.handle_bytes = memory.bytes().size(), .max_handles = 1},
                            {memory.read_only_fd()});
  }

  const int socket_;
  SimRandom random_;
  SimTime time_;
  SimExecutor executor_{&time_};
  const TenantTable tenants_ = *TenantTable::Create({{.name = "default"}});
  BlockChanges changes_;
  Residency residency_{
      {.executor = &executor_, .scope = &scope_, .tenants = &tenants_, .changes = &changes_},
      kMinResidencyLog2Buckets + 1};
  TaskScope scope_{&executor_};
  const SealedMemory* handed_out_ = nullptr;
};

class ResidencyKillPointsTest : public ::testing::Test {
 protected:
  // Receives the next table; null: the writer has ended.
  static std::shared_ptr<const ResidencyView> Receive(int socket) {
    const auto [shape, descriptors] = ReceiveShapeAndDescriptors(socket);
    if (descriptors.empty()) return nullptr;
    auto mapping = Mapping::Map(descriptors.front(), shape.handle_bytes, Mapping::Access::kRead);
    close(descriptors.front());
    return *ResidencyView::Open(*std::move(mapping));
  }
  // Looks up one random block that is always there, and one that never is.
  void Look(const ResidencyView& view) {
    const Residence kept = view.Look(NumberedKey(random_.Below(kKept)));
    const Residence never = view.Look(NumberedKey(kNever + random_.Below(kNever)));
    if (view.retired()) return;
    ASSERT_NE(kept, Residence::kAbsent);
    ASSERT_TRUE(never == Residence::kAbsent || never == Residence::kPerhaps);
  }
  void KillAt(std::string_view place, uint64_t nth);

  SimRandom random_{TestSeed()};
};

void ResidencyKillPointsTest::KillAt(std::string_view place, uint64_t nth) {
  const std::array<int, 2> sockets = SocketPair();
  const uint64_t seed = random_.Next();
  const pid_t writer = fork();
  if (writer == 0) {
    close(sockets[1]);
    Writer(sockets[0], seed).Run(place, nth);
    _exit(0);
  }
  close(sockets[0]);
  std::shared_ptr<const ResidencyView> view = Receive(sockets[1]);
  ASSERT_NE(view, nullptr);
  pollfd news = {.fd = sockets[1], .events = POLLIN, .revents = 0};
  while (true) {
    Look(*view);
    if (HasFatalFailure()) break;
    if (poll(&news, 1, 0) == 0) continue;
    std::shared_ptr<const ResidencyView> next = Receive(sockets[1]);
    if (next == nullptr) break;
    view = std::move(next);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the place was not reached";
  for (int i = 0; i < kLooksAfterDeath && !HasFatalFailure(); ++i) Look(*view);
  close(sockets[1]);
}

TEST_F(ResidencyKillPointsTest, AReaderIsToldTheTruthBesideAWriterThatDiesAtEachPlace) {
  size_t places = 0;
  for (const std::string_view place : kKillPoints) {
    if (!IsResidencyKillPoint(place)) continue;
    ++places;
    for (uint64_t i = 0; i < Kills(); ++i) {
      const uint64_t nth = 1 + random_.Below(MostHits(place));
      SCOPED_TRACE(absl::StrCat(std::string(place), ", hit ", nth));
      KillAt(place, nth);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(places, 10);
}

}  // namespace
}  // namespace kvtier::testing
