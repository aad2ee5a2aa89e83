// bench: eviction_order - memory and time of the learnt order of eviction, beside LRU's
// check: --rounds=1 --blocks=1000000
//
// One order of many blocks is filled and then used at random: runs of blocks are touched, held and
// replaced by new ones, some of which continue older runs. At the end some are set aside, and
// memory is the growth of the heap since the start. Every round does the same to a fresh order, so
// an operation that is slow by itself is slow in each round: of each operation the shortest time
// counts, and the longest of these is reported. Times include a call of the clock, whose own time
// is subtracted.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/rounds.h"
#include "core/check.h"
#include "core/eviction_order.h"

ABSL_FLAG(uint64_t, blocks, 10'000'000, "Blocks of the tier.");
ABSL_FLAG(kvtier::bench::Rounds, rounds, {3}, "Rounds of each order.");

namespace kvtier::bench {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

constexpr double kMeanRun = 8;      // Blocks that come together and continue each other.
constexpr uint64_t kContinued = 4;  // One run in so many continues another one.
constexpr uint64_t kLively = 4;     // One run in so many is used again and again.
constexpr size_t kHeldRuns = 64;    // Runs that are held at a time.
constexpr uint64_t kAside = 16;     // One block in so many is set aside, as the agent does.
constexpr absl::Duration kBetweenRuns = absl::Milliseconds(10);
// Operations that took less are ignored when the longest is determined.
constexpr int64_t kShort = 20'000;

enum Operation : uint8_t { kVictim, kErase, kInsert, kTouch, kHold, kSetAside, kOperations };
constexpr const char* kNames[kOperations] = {"decision", "erase", "insert",
                                             "touch",    "hold",  "set_aside"};

// Times of one round, in nanoseconds.
struct Times {
  std::array<double, kOperations> sums{};
  std::array<uint64_t, kOperations> counts{};
  uint64_t done = 0;                            // Operations so far, by which they are numbered.
  absl::flat_hash_map<uint64_t, int64_t> slow;  // By number.

  double Mean(Operation operation) const {
    return sums[operation] / static_cast<double>(counts[operation]);
  }
};

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<Nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Returns the time of one call of the clock.
double ClockNanoseconds() {
  constexpr int kLooks = 1'000'000;
  const int64_t started = NowNanoseconds();
  for (int i = 1; i < kLooks; ++i) NowNanoseconds();
  return static_cast<double>(NowNanoseconds() - started) / kLooks;
}

size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Returns a number that looks random, always the same for the same argument.
uint64_t Mix(uint64_t number) {
  number = (number ^ (number >> 31)) * 0x7fb5d329728ea185;
  number = (number ^ (number >> 27)) * 0x81dadef4bc2dd44d;
  return number ^ (number >> 33);
}

// Load does the same to an order whenever it has the same policy and size.
class Load {
 public:
  Load(EvictionPolicy policy, uint64_t blocks) : blocks_(blocks) {
    runs_.reserve(2 * blocks / static_cast<uint64_t>(kMeanRun));
    times_.slow.reserve(100'000);
    places_.reserve(blocks);
    const size_t before = HeapBytes();
    order_ = std::make_unique<EvictionOrder>(
        policy, [this](const BlockKey& key) -> std::optional<EvictionOrder::Place> {
          const auto place = places_.find(key);
          return place == places_.end() ? std::nullopt : std::optional(place->second);
        });
    Fill();
    bytes_per_block_ = static_cast<double>(HeapBytes() - before) / static_cast<double>(blocks);
    times_full_ = std::move(times_);
    times_ = {.done = times_full_.done};
    times_.slow.reserve(100'000);
    const size_t filled = HeapBytes();
    Churn();
    SetAside();
    bytes_per_block_ += static_cast<double>(HeapBytes()) / static_cast<double>(blocks) -
                        static_cast<double>(filled) / static_cast<double>(blocks);
    followed_ = order_->followed();
  }

  const Times& filling() const { return times_full_; }
  const Times& churning() const { return times_; }
  double bytes_per_block() const { return bytes_per_block_; }
  EvictionPolicy followed() const { return followed_; }

 private:
  struct Run {
    uint64_t id = 0;
    uint32_t length = 0;
    std::optional<BlockKey> stem;
  };

  // Returns a key that stands for one of BlockNamer's: both halves look random. Real names would
  // take 0.5 us each, tens of millions of times in a round.
  static BlockKey KeyOf(const Run& run, uint64_t block) {
    const uint64_t number = Mix(run.id * 1'000'003 + block + 1);
    return {.hi = number, .lo = Mix(number)};
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  // Times `action`, which is one operation.
  template <typename Action>
  void Time(Operation operation, Action action) {
    const int64_t started = NowNanoseconds();
    action();
    const int64_t took = NowNanoseconds() - started;
    times_.sums[operation] += static_cast<double>(took);
    ++times_.counts[operation];
    if (took >= kShort) times_.slow[times_.done] = took;
    ++times_.done;
  }

  Run NewRun() {
    Run run{.id = next_id_++};
    run.length = 1 + static_cast<uint32_t>(std::geometric_distribution<int>(1 / kMeanRun)(random_));
    if (runs_.empty() || Below(kContinued) != 0) return run;
    const Run& other = runs_[Below(runs_.size())];
    run.stem = KeyOf(other, Below(other.length));
    return run;
  }
  void MakeRoom() {
    std::optional<BlockKey> victim;
    Time(kVictim, [&] { victim = order_->Victim(); });
    KVT_CHECK(victim.has_value());
    const auto place = places_.find(*victim);
    Time(kErase, [&] { order_->Erase(place->second); });
    places_.erase(place);
  }
  void InsertRun(const Run& run) {
    now_ += kBetweenRuns;
    order_->AdvanceTo(now_);
    std::optional<BlockKey> parent = run.stem;
    for (uint32_t block = 0; block < run.length; ++block) {
      EvictionOrder::Newcomer newcomer{.key = KeyOf(run, block), .parent = parent};
      newcomer.followers = run.length - block - 1;
      if (order_->size() == blocks_) MakeRoom();
      EvictionOrder::Place place{};
      Time(kInsert, [&] { place = order_->Insert(newcomer); });
      places_.emplace(newcomer.key, place);
      parent = newcomer.key;
    }
  }
  template <typename Visit>
  void VisitMembers(const Run& run, Visit visit) {
    for (uint32_t block = run.length; block-- > 0;) {
      const auto place = order_->Find(KeyOf(run, block));
      if (place.has_value()) visit(*place);
    }
  }
  void TouchRun(const Run& run) {
    now_ += kBetweenRuns;
    order_->AdvanceTo(now_);
    VisitMembers(
        run, [this](EvictionOrder::Place place) { Time(kTouch, [&] { order_->Touch(place); }); });
  }
  void HoldNextRun() {
    std::vector<EvictionOrder::Place>& places = held_[next_held_++ % kHeldRuns];
    for (const EvictionOrder::Place place : places) {
      Time(kHold, [&] { order_->Unhold(place); });
    }
    places.clear();
    VisitMembers(runs_[Below(runs_.size())], [&](EvictionOrder::Place place) {
      if (!order_->IsCandidate(place)) return;  // Its tail keeps the others.
      Time(kHold, [&] { order_->Hold(place); });
      places.push_back(place);
    });
  }

  void Fill() {
    while (order_->size() < blocks_) {
      runs_.push_back(NewRun());
      runs_.back().length =
          static_cast<uint32_t>(std::min<uint64_t>(runs_.back().length, blocks_ - order_->size()));
      InsertRun(runs_.back());
      if (Below(4) == 0) TouchRun(LivelyRun());
    }
  }
  // Replaces half of the blocks by new ones.
  void Churn() {
    for (uint64_t left = blocks_ / 2; left > 0;) {
      Run& run = runs_[Below(runs_.size())];
      run = NewRun();
      InsertRun(run);
      left -= std::min<uint64_t>(left, run.length);
      for (int i = 0; i < 2; ++i) TouchRun(LivelyRun());
      if (Below(4) == 0) HoldNextRun();
    }
  }
  void SetAside() {
    while (order_->aside(0) < blocks_ / kAside) {
      Time(kSetAside, [&] { KVT_CHECK(order_->SetNextAside(0).has_value()); });
    }
  }
  const Run& LivelyRun() {
    for (;;) {
      const Run& run = runs_[Below(runs_.size())];
      if (Mix(run.id) % kLively == 0 || Below(8) == 0) return run;
    }
  }

  const uint64_t blocks_;
  // Places of the members, by key: the table of an owner, whose memory does not belong to the
  // order.
  absl::flat_hash_map<BlockKey, EvictionOrder::Place> places_;
  std::unique_ptr<EvictionOrder> order_;
  std::mt19937_64 random_{1};  // Same in every round.
  std::vector<Run> runs_;
  uint64_t next_id_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::array<std::vector<EvictionOrder::Place>, kHeldRuns> held_;
  size_t next_held_ = 0;
  Times times_;
  Times times_full_;
  double bytes_per_block_ = 0;
  EvictionPolicy followed_{};
};

// Figures of one order.
struct Figures {
  double bytes_per_block = 0;
  std::array<std::vector<double>, kOperations> means;  // Means of each round, by operation.
  std::vector<double> fill_means;                      // Means of insertions into a growing tier.
  absl::flat_hash_map<uint64_t, int64_t> slow;  // Operations that were slow in each round so far.
  EvictionPolicy followed{};

  double Mean(Operation operation) const { return Median(means[operation]); }
  double LongestMilliseconds() const {
    int64_t longest = kShort;
    for (const auto& [number, took] : slow) longest = std::max(longest, took);
    return static_cast<double>(longest) * 1e-6;
  }
};

void AddRound(EvictionPolicy policy, uint64_t blocks, double clock, Figures* figures) {
  const Load load(policy, blocks);
  const bool is_first = figures->fill_means.empty();
  absl::flat_hash_map<uint64_t, int64_t> slow;
  for (const Times* times : {&load.filling(), &load.churning()}) {
    for (const auto& [number, took] : times->slow) {
      const auto before = figures->slow.find(number);
      if (is_first) {
        slow[number] = took;
      } else if (before != figures->slow.end()) {
        slow[number] = std::min(took, before->second);
      }
    }
  }
  figures->slow = std::move(slow);
  figures->bytes_per_block = load.bytes_per_block();
  figures->followed = load.followed();
  figures->fill_means.push_back(load.filling().Mean(kInsert) - clock);
  for (size_t i = 0; i < kOperations; ++i) {
    figures->means[i].push_back(load.churning().Mean(static_cast<Operation>(i)) - clock);
  }
}

void Print(EvictionPolicy policy, const Figures& figures) {
  std::printf("%-7s followed %s at the end, %.1f B a block, longest %.3f ms, ns:",
              std::string(EvictionPolicyName(policy)).c_str(),
              std::string(EvictionPolicyName(figures.followed)).c_str(), figures.bytes_per_block,
              figures.LongestMilliseconds());
  for (size_t i = 0; i < kOperations; ++i) {
    std::printf(" %s %.0f", kNames[i], figures.Mean(static_cast<Operation>(i)));
  }
  std::printf(", insert while it grows %.0f\n  longest, by number:", Median(figures.fill_means));
  std::vector<std::pair<int64_t, uint64_t>> slow;
  for (const auto& [number, took] : figures.slow) slow.emplace_back(took, number);
  std::ranges::sort(slow, std::greater<>());
  slow.resize(std::min<size_t>(slow.size(), 8));
  for (const auto& [took, number] : slow) {
    std::printf(" %lu: %.3f ms", static_cast<unsigned long>(number),
                static_cast<double>(took) * 1e-6);
  }
  std::printf("\n");
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Memory and time of the order of eviction, beside LRU's.");
  absl::ParseCommandLine(argc, argv);
  const uint64_t blocks = absl::GetFlag(FLAGS_blocks);
  KVT_CHECK(blocks >= 1000);
  const double clock = ClockNanoseconds();
  std::printf("%lu blocks; a look at the clock costs %.0f ns\n", static_cast<unsigned long>(blocks),
              clock);
  Figures lru;
  Figures learnt;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds).count; ++round) {
    AddRound(EvictionPolicy::kLru, blocks, clock, &lru);
    AddRound(EvictionPolicy::kLearnt, blocks, clock, &learnt);
  }
  Print(EvictionPolicy::kLru, lru);
  Print(EvictionPolicy::kLearnt, learnt);
  const auto print = [](const char* what, double value, double reference, const char* unit) {
    PrintFigure(absl::StrCat("eviction_order.", what), value, unit, value / reference, "lru");
  };
  print("memory", learnt.bytes_per_block, lru.bytes_per_block, "B/block");
  print("decision", learnt.Mean(kVictim), lru.Mean(kVictim), "ns");
  const auto exchange = [](const Figures& figures) {
    return figures.Mean(kVictim) + figures.Mean(kErase) + figures.Mean(kInsert);
  };
  print("insert_and_evict", exchange(learnt), exchange(lru), "ns");
  print("touch", learnt.Mean(kTouch), lru.Mean(kTouch), "ns");
  print("longest", learnt.LongestMilliseconds(), lru.LongestMilliseconds(), "ms");
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
