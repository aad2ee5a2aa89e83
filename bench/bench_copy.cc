// bench: copy - copies of blocks with their sums, beside memcpy and a streaming copy
// check: --rounds=41
//
// It uses one thread. An engine's memory and the slots are each several times as large as the
// last-level cache, and every block is touched once a lap. In each round every way moves a few
// blocks, one way after another, so that all of them meet the same load of the machine. The ratio
// of a round compares neighbours in time, and the median of the rounds' ratios counts. The
// reference is, in each round, the faster of memcpy and the streaming copy, which take no sum.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/rounds.h"
#include "bench/streaming_copy.h"
#include "core/check.h"
#include "core/copy_sum.h"
#include "core/space.h"
#include "tier_disk/io/page_buffer.h"

ABSL_FLAG(kvtier::bench::Rounds, rounds, {201}, "Rounds; the medians count.");

namespace kvtier::bench {
namespace {

// Size of the engine's memory, and of the slots.
constexpr uint64_t kSideBytes = uint64_t{256} << 20;
// Approximate bytes that a way moves in its turn.
constexpr uint64_t kTurnBytes = uint64_t{8} << 20;

struct Shape {
  const char* name;
  size_t pieces;
  uint64_t piece_bytes;
};
constexpr Shape kShapes[] = {
    {"2MiB", 1, 2 << 20}, {"30x48KiB", 30, 48 << 10}, {"64KiB", 1, 64 << 10}};

// Block in the engine's memory and in its slot.
struct CopiedBlock {
  std::vector<Piece> engine;
  std::vector<Piece> slot;  // Parts of the slot that match the engine's pieces.
  Piece whole;              // Whole slot.
};

// Lays blocks out as an engine does: each layer has memory of its own, where a block has one piece.
std::vector<CopiedBlock> LayOut(const Shape& shape, Piece engine, Piece slots) {
  const uint64_t block_bytes = shape.pieces * shape.piece_bytes;
  const size_t count = kSideBytes / SlotBytes(block_bytes);
  std::vector<CopiedBlock> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    CopiedBlock& block = blocks[i];
    block.whole = slots.subspan(i * SlotBytes(block_bytes), block_bytes);
    for (size_t layer = 0; layer < shape.pieces; ++layer) {
      block.engine.push_back(
          engine.subspan((layer * count + i) * shape.piece_bytes, shape.piece_bytes));
      block.slot.push_back(block.whole.subspan(layer * shape.piece_bytes, shape.piece_bytes));
    }
  }
  return blocks;
}

std::vector<ConstPiece> ToRead(const std::vector<Piece>& pieces) {
  return {pieces.begin(), pieces.end()};
}

void PlainCopy(std::span<const Piece> to, std::span<const ConstPiece> from) {
  for (size_t i = 0; i < to.size(); ++i) std::memcpy(to[i].data(), from[i].data(), to[i].size());
}

enum class Direction { kIn, kOut };

// CopyTurns measures the ways of one direction over the blocks of one shape.
class CopyTurns {
 public:
  CopyTurns(const Shape& shape, std::vector<CopiedBlock> blocks, Direction direction)
      : shape_(shape), blocks_(std::move(blocks)), direction_(direction) {
    for (const CopiedBlock& block : blocks_) {
      to_.push_back(direction == Direction::kIn ? block.slot : block.engine);
      from_.push_back(ToRead(direction == Direction::kIn ? block.engine : block.slot));
    }
  }

  void Run(int rounds) {
    const std::vector<std::function<void(size_t)>> ways = {
        [&](size_t i) { PlainCopy(to_[i], from_[i]); },
        [&](size_t i) { StreamingCopy(to_[i], from_[i]); }, [&](size_t i) { CopyThenSum(i); },
        [&](size_t i) { OnePass(i); }};
    std::vector<std::vector<double>> seconds(ways.size());
    for (int round = 0; round < rounds; ++round) {
      // Each way is first in one of the rounds.
      for (size_t k = 0; k < ways.size(); ++k) {
        const size_t way = (k + static_cast<size_t>(round)) % ways.size();
        seconds[way].push_back(TurnOf(ways[way]));
      }
    }
    Print(seconds);
  }

 private:
  double TurnOf(const std::function<void(size_t)>& way) {
    const absl::Time started = absl::Now();
    for (uint64_t i = 0; i < TurnBlocks(); ++i) way(next_++ % blocks_.size());
    return absl::ToDoubleSeconds(absl::Now() - started);
  }

  uint64_t BlockBytes() const { return shape_.pieces * shape_.piece_bytes; }
  uint64_t TurnBlocks() const { return kTurnBytes / BlockBytes(); }

  // Does what a worker without such a copy does: reads the bytes of the slot once more.
  void CopyThenSum(size_t i) {
    PlainCopy(to_[i], from_[i]);
    sums_ ^= SumPayload(blocks_[i].whole).lo;
  }

  void OnePass(size_t i) {
    const PayloadSum sum = direction_ == Direction::kIn ? GatherAndSum(blocks_[i].whole, from_[i])
                                                        : ScatterAndSum(to_[i], blocks_[i].whole);
    sums_ ^= sum.lo;
  }

  void Print(const std::vector<std::vector<double>>& seconds) const {
    const double bytes = static_cast<double>(TurnBlocks() * BlockBytes());
    std::vector<double> one_pass;
    std::vector<double> then_sum;
    for (size_t round = 0; round < seconds[0].size(); ++round) {
      const double reference = std::min(seconds[0][round], seconds[1][round]);
      then_sum.push_back(reference / seconds[2][round]);
      one_pass.push_back(reference / seconds[3][round]);
    }
    const char* const direction = direction_ == Direction::kIn ? "in" : "out";
    std::printf("%s %s: memcpy %.1f, streaming %.1f, copy then sum %.1f, one pass %.1f GB/s (%x)\n",
                direction, shape_.name, bytes / Median(seconds[0]) / 1e9,
                bytes / Median(seconds[1]) / 1e9, bytes / Median(seconds[2]) / 1e9,
                bytes / Median(seconds[3]) / 1e9, static_cast<unsigned>(sums_));
    const char* const reference = "faster_of_memcpy_and_streaming";
    PrintFigure(absl::StrCat("copy.", direction, ".", shape_.name),
                bytes / Median(seconds[3]) / 1e9, "GB/s", Median(one_pass), reference);
    PrintFigure(absl::StrCat("copy.", direction, "_then_sum.", shape_.name),
                bytes / Median(seconds[2]) / 1e9, "GB/s", Median(then_sum), reference);
  }

  const Shape shape_;
  const std::vector<CopiedBlock> blocks_;
  const Direction direction_;
  std::vector<std::vector<Piece>> to_;  // Destination pieces of each block.
  std::vector<std::vector<ConstPiece>> from_;
  size_t next_ = 0;    // Next block to copy.
  uint64_t sums_ = 0;  // Combines the sums; printed, so that they are not optimised away.
};

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What a block's sum costs a copy into or out of its slot.");
  absl::ParseCommandLine(argc, argv);
  const int rounds = absl::GetFlag(FLAGS_rounds).count;
  PageBuffer engine(kSideBytes);
  PageBuffer slots(kSideBytes);
  std::mt19937_64 random(1);
  for (PageBuffer* const side : {&engine, &slots}) {
    for (size_t i = 0; i < kSideBytes; i += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(side->bytes().data() + i, &word, sizeof(word));
    }
  }
  for (const Shape& shape : kShapes) {
    for (const Direction direction : {Direction::kIn, Direction::kOut}) {
      CopyTurns(shape, LayOut(shape, engine.bytes(), slots.bytes()), direction).Run(rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
