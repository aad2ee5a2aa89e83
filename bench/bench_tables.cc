// bench: tables - operations of block tables a second and core, beside a plain table's
// check: --rounds=101
//
// It uses one core, and sequences of real length in a pool that is nearly full: steps begin and
// retire meanwhile, and freed slots drain. An operation is one call for one sequence (a decode
// step's append, a prefill's, a fork) or, where a whole sequence is added or removed, one block of
// it. Every figure is the median of several rounds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/rounds.h"
#include "core/check.h"
#include "tier_gpu/tables/block_table.h"

ABSL_FLAG(kvtier::bench::Rounds, rounds, {7}, "Rounds; the medians count.");

namespace kvtier::bench {
namespace {

constexpr double kPromise = 5e6;              // Promised operations a second and core.
constexpr uint32_t kSlots = 65'536;           // 128 GiB of 2-MiB blocks.
constexpr uint32_t kBlockTokens = 16;         // Same as in most engines.
constexpr uint32_t kSequences = 256;          // Size of a large batch.
constexpr uint32_t kMeanPromptTokens = 3000;  // Range: 1000 to 5000.
constexpr uint32_t kDecodeSteps = 512;
constexpr PoolWorker kWorker{0};

class TableRun {
 public:
  // Operations a second, by kind.
  double prefill = 0;
  double append = 0;
  double fork = 0;
  double copy_on_write = 0;
  double swap = 0;
  double free = 0;
  Fragmentation fragmentation;

  void Go() {
    Step();
    prefill = Rate([this] { return Prefill(); });
    append = Rate([this] { return Decode(); });
    fragmentation = tables_.Measure();
    fork = Rate([this] { return Fork(); });
    copy_on_write = Rate([this] { return Write(); });
    swap = Rate([this] { return Swap(); });
    free = Rate([this] { return Free(); });
    tables_.Audit();
    KVT_CHECK(slots_.free_slots() == kSlots);
  }

 private:
  static double Rate(const std::function<size_t()>& way) {
    const absl::Time started = absl::Now();
    const size_t operations = way();
    return static_cast<double>(operations) / absl::ToDoubleSeconds(absl::Now() - started);
  }
  // Begins and retires steps, with two in flight, as in engines that prepare the next while one
  // runs.
  void Step() {
    ++step_;
    KVT_CHECK(slots_.Begin(kWorker, step_).ok());
    if (step_ > 2) KVT_CHECK(slots_.Retire(kWorker, step_ - 2).ok());
  }
  void Append(SequenceId sequence, uint32_t tokens) {
    KVT_CHECK(tables_.Append(sequence, tokens).ok());
  }
  // Prefills; counted by block, because a prompt's blocks come with one call.
  size_t Prefill() {
    for (uint32_t i = 0; i < kSequences; ++i) {
      sequences_.push_back(tables_.Create(kWorker, 0));
      Append(sequences_.back(), static_cast<uint32_t>(kMeanPromptTokens - 2000 + random_() % 4000));
    }
    Step();
    return slots_.used_slots();
  }
  // Appends one token to each sequence in each step.
  size_t Decode() {
    for (uint32_t step = 0; step < kDecodeSteps; ++step) {
      for (const SequenceId sequence : sequences_) Append(sequence, 1);
      Step();
    }
    return size_t{kDecodeSteps} * kSequences;
  }
  // Forks; counted by block, because each is held once more.
  size_t Fork() {
    size_t blocks = 0;
    for (const SequenceId sequence : sequences_) {
      blocks += tables_.slots(sequence)->size();
      forks_.push_back(*tables_.Fork(sequence));
    }
    return blocks;
  }
  // Writes to the forks; of each pair, the first to write copies the last block, unless it is full.
  size_t Write() {
    size_t copies = 0;
    for (const SequenceId fork : forks_) copies += tables_.Append(fork, 1)->copy ? 1 : 0;
    Step();
    return copies;
  }
  // Swaps out and in again, with shared blocks; counted by block.
  size_t Swap() {
    std::vector<SequenceId> all = sequences_;
    all.insert(all.end(), forks_.begin(), forks_.end());
    size_t blocks = tables_.SwapOut(all)->size();
    for (int i = 0; i < 3; ++i) Step();
    for (const SequenceId sequence : sequences_) blocks += tables_.SwapIn(sequence)->size();
    return blocks;
  }
  // Frees; counted by block.
  size_t Free() {
    size_t blocks = 0;
    for (std::vector<SequenceId>* group : {&sequences_, &forks_}) {
      for (const SequenceId sequence : *group) {
        blocks += tables_.slots(sequence)->size();
        KVT_CHECK(tables_.Free(sequence).ok());
      }
      group->clear();
    }
    for (int i = 0; i < 3; ++i) Step();
    return blocks;
  }

  SlotTable slots_{{.slots = kSlots}};
  BlockTable tables_{&slots_, kBlockTokens};
  uint64_t step_ = 0;
  std::mt19937_64 random_{1};  // Same lengths in every run.
  std::vector<SequenceId> sequences_;
  std::vector<SequenceId> forks_;
};

// Runs the same decode steps with the simplest table: a hash map of vectors and a count for each
// slot, without steps, generations and forks.
double PlainTables() {
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, std::vector<uint32_t>>> tables;
  std::vector<uint32_t> counts(kSlots, 0);
  std::vector<uint32_t> free(kSlots);
  std::iota(free.begin(), free.end(), 0);
  for (uint64_t i = 0; i < kSequences; ++i) tables[i].first = kMeanPromptTokens + i;
  const absl::Time started = absl::Now();
  for (uint32_t step = 0; step < kDecodeSteps; ++step) {
    for (uint64_t i = 0; i < kSequences; ++i) {
      auto& [tokens, slots] = tables.find(i)->second;
      if (tokens++ % kBlockTokens != 0) continue;
      slots.push_back(free.back());
      ++counts[free.back()];
      free.pop_back();
    }
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - started);
  KVT_CHECK(free.size() == kSlots - kSequences * (kDecodeSteps / kBlockTokens));
  return kDecodeSteps * kSequences / seconds;
}

void Measure(int rounds) {
  TableRun run;
  std::vector<double> plain;
  struct Figure {
    const char* name;
    double TableRun::* rate;
    std::vector<double> rates;
  };
  std::vector<Figure> figures = {{"prefill_blocks", &TableRun::prefill, {}},
                                 {"fork_blocks", &TableRun::fork, {}},
                                 {"copy_on_write", &TableRun::copy_on_write, {}},
                                 {"swap_blocks", &TableRun::swap, {}},
                                 {"free_blocks", &TableRun::free, {}},
                                 {"append", &TableRun::append, {}}};
  run.Go();  // Touches every page, and wakes the core.
  for (int round = 0; round < rounds; ++round) {
    run.Go();
    for (Figure& figure : figures) figure.rates.push_back(run.*figure.rate);
    plain.push_back(PlainTables());
  }
  const double room = static_cast<double>(run.fragmentation.room);
  const double unused = static_cast<double>(run.fragmentation.unused);
  PrintFigure("tables.fragmentation", unused / room * 100, "%",
              unused / room * 2 * (kMeanPromptTokens + kDecodeSteps) / kBlockTokens,
              "half_a_block_each");
  PrintFigure("tables.append_beside_plain", Median(figures.back().rates) / 1e6, "Mops/s",
              Median(figures.back().rates) / Median(plain), "plain_tables");
  for (const Figure& figure : figures) {
    const double rate = Median(figure.rates);
    PrintFigure(absl::StrCat("tables.", figure.name), rate / 1e6, "Mops/s", rate / kPromise,
                "promise_5Mops/s");
  }
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Rates of the block tables, beside what is promised and plain tables.");
  absl::ParseCommandLine(argc, argv);
  const int rounds = absl::GetFlag(FLAGS_rounds).count;
  Measure(rounds);
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
