#include "core/copy_sum.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/stripe_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

// Sizes around which the way that bytes are moved changes: stripes, XXH3's short forms and
// scrambles, pages, and the smallest size with streaming stores.
constexpr size_t kCopySumBoundaries[] = {
    0, 64, 128, 240, 1024, 2048, 4096, 8192, 4160, size_t{128} << 10, size_t{1} << 20};

std::vector<std::byte> RandomBytes(size_t size, std::mt19937_64* random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)());
  return bytes;
}

// Returns sizes that add up to `bytes`; some are 0 or 1, and some are whole stripes.
std::vector<size_t> RandomSplit(size_t bytes, std::mt19937_64* random) {
  std::vector<size_t> sizes;
  const size_t longest = std::max<size_t>(1, bytes / (1 + (*random)() % 16));
  for (size_t left = bytes; left > 0;) {
    const size_t kind = (*random)() % 4;
    const size_t size = kind == 0   ? 0
                        : kind == 1 ? 1
                        : kind == 2 ? 64 * ((*random)() % 5)
                                    : (*random)() % (longest + 1);
    sizes.push_back(std::min(size, left));
    left -= sizes.back();
  }
  if ((*random)() % 2 == 0) sizes.push_back(0);
  return sizes;
}

// Memory with a guard of known bytes around it, at an address that is `shift` behind a multiple
// of 64.
class ShiftedMemory {
 public:
  ShiftedMemory(size_t size, size_t shift) : memory_(size + 3 * kGuard, kGuardByte) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    offset_ = kGuard + (kGuard - address % kGuard) % kGuard + shift % kGuard;
    bytes_ = std::span(memory_).subspan(offset_, size);
  }
  std::span<std::byte> bytes() const { return bytes_; }
  bool GuardsAreWhole() const {
    const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
    return std::all_of(memory_.begin(), memory_.begin() + offset_, is_guard) &&
           std::all_of(memory_.begin() + offset_ + bytes_.size(), memory_.end(), is_guard);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};
  std::vector<std::byte> memory_;
  size_t offset_;
  std::span<std::byte> bytes_;
};

// Copies one block to its pieces and back, by one form. There is a gap of `gap` bytes between two
// pieces.
void ExpectRightCopies(const StripeForm& form, const std::vector<std::byte>& content,
                       const std::vector<size_t>& sizes, size_t shift, size_t gap) {
  ShiftedMemory block(content.size(), shift);
  ShiftedMemory scattered(content.size() + gap * sizes.size(), shift * 5 + 3);
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> destinations;
  size_t at = 0;
  size_t place = 0;
  for (const size_t size : sizes) {
    sources.push_back(std::span(content).subspan(at, size));
    destinations.push_back(scattered.bytes().subspan(place, size));
    at += size;
    place += size + gap;
  }
  const PayloadSum expected = SumPayload(content);
  EXPECT_EQ(CopyAndSumPieces(std::array<Piece, 1>{block.bytes()}, sources, form), expected);
  EXPECT_TRUE(std::ranges::equal(block.bytes(), content));
  EXPECT_TRUE(block.GuardsAreWhole());
  EXPECT_EQ(CopyAndSumPieces(destinations, std::array<ConstPiece, 1>{block.bytes()}, form),
            expected);
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(destinations[i], sources[i])) << "piece " << i;
  }
  EXPECT_TRUE(scattered.GuardsAreWhole());
  size_t gap_bytes = 0;  // Bytes of gaps, which no copy wrote if they still have the guard's value.
  place = 0;
  for (const size_t size : sizes) {
    const auto between = scattered.bytes().subspan(place + size, gap);
    gap_bytes += std::ranges::count(between, std::byte{0xa5});
    place += size + gap;
  }
  EXPECT_EQ(gap_bytes, gap * sizes.size());
}

class CopySum : public ::testing::TestWithParam<const StripeForm*> {
 protected:
  std::mt19937_64 random_{testing::TestSeed()};
};

std::vector<const StripeForm*> AllForms() {
  std::vector<const StripeForm*> forms;
  for (const StripeForm& form : StripeForms()) forms.push_back(&form);
  return forms;
}

INSTANTIATE_TEST_SUITE_P(Forms, CopySum, ::testing::ValuesIn(AllForms()), [](const auto& test) {
  std::string name = test.param->name;
  std::erase(name, '-');
  return name;
});

TEST_P(CopySum, EveryLengthUpToAPageIsCopiedAndSummed) {
  for (size_t size = 0; size <= 4096; ++size) {
    const std::vector<std::byte> content = RandomBytes(size, &random_);
    ExpectRightCopies(*GetParam(), content, {size}, size % 64, 0);
    ExpectRightCopies(*GetParam(), content, RandomSplit(size, &random_), 0, 1);
    if (HasFailure()) FAIL() << "length " << size;
  }
}

TEST_P(CopySum, LengthsAroundEveryBoundaryAndSplitsAreRight) {
  for (const size_t boundary : kCopySumBoundaries) {
    for (size_t size = boundary - std::min<size_t>(boundary, 2); size <= boundary + 2; ++size) {
      const std::vector<std::byte> content = RandomBytes(size, &random_);
      for (const size_t shift : {0, 1, 16, 32, 48, 63}) {
        ExpectRightCopies(*GetParam(), content, RandomSplit(size, &random_), shift, shift % 7);
      }
      if (HasFailure()) FAIL() << "length " << size;
    }
  }
}

TEST_P(CopySum, PiecesOfOneByteAreRight) {
  const std::vector<std::byte> content = RandomBytes(1500, &random_);
  ExpectRightCopies(*GetParam(), content, std::vector<size_t>(1500, 1), 0, 1);
}

TEST_P(CopySum, AnEnginesPiecesAreRight) {
  constexpr size_t piece = size_t{48} << 10;
  const std::vector<std::byte> content = RandomBytes(30 * piece, &random_);
  ExpectRightCopies(*GetParam(), content, std::vector<size_t>(30, piece), 0, 4096);
}

// Two mappings of one file, as a worker and the agent have them. A thread writes through the
// second one as another process would.
class ChangingMemory {
 public:
  explicit ChangingMemory(size_t size) : size_(size) {
    const int fd = memfd_create("changing", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(size)), 0);
    mine_ = Map(fd);
    others_ = Map(fd);
    close(fd);
    writer_ = std::thread([this] {
      for (uint64_t round = 1; !stop_.load(std::memory_order_relaxed); ++round) {
        std::memset(others_, static_cast<int>(round % 251), size_);
        rounds_.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  ~ChangingMemory() {
    stop_.store(true, std::memory_order_relaxed);
    writer_.join();
    munmap(mine_, size_);
    munmap(others_, size_);
  }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(mine_), size_}; }
  uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  void* Map(int fd) const {
    void* const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return memory;
  }
  const size_t size_;
  void* mine_;
  void* others_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> rounds_ = 0;
  std::thread writer_;
};

TEST_P(CopySum, TheSumIsOfWhatWasStoredThoughTheSourceChanges) {
  for (const size_t size : {size_t{200}, size_t{1000}, (size_t{256} << 10) + 7}) {
    const ChangingMemory source(size);
    std::vector<std::byte> stored(size);
    // The pieces are no whole stripes, so that the copies also use buffers and a short last stripe.
    const std::vector<std::span<std::byte>> out = {std::span(stored).first(size / 3),
                                                   std::span(stored).subspan(size / 3)};
    const std::vector<std::span<const std::byte>> in = {source.bytes().first(size / 3),
                                                        source.bytes().subspan(size / 3)};
    const uint64_t start = source.rounds();
    for (int i = 0; i < 200 || source.rounds() < start + 20; ++i) {
      const PayloadSum gathered = CopyAndSumPieces(std::array<Piece, 1>{stored}, in, *GetParam());
      ASSERT_EQ(gathered, SumPayload(stored)) << "in, " << size;
      const PayloadSum scattered =
          CopyAndSumPieces(out, std::array<ConstPiece, 1>{source.bytes()}, *GetParam());
      ASSERT_EQ(scattered, SumPayload(stored)) << "out, " << size;
    }
  }
}

// The pieces of the two sides split the block at different places.
TEST_P(CopySum, PiecesOnBothSidesAreRight) {
  for (const size_t size : {size_t{100}, size_t{5000}, size_t{300'001}}) {
    const std::vector<std::byte> content = RandomBytes(size, &random_);
    std::vector<std::byte> stored(size);
    std::vector<ConstPiece> from;
    std::vector<Piece> to;
    size_t at = 0;
    for (const size_t bytes : RandomSplit(size, &random_)) {
      from.push_back(ConstPiece(content).subspan(at, bytes));
      at += bytes;
    }
    at = 0;
    for (const size_t bytes : RandomSplit(size, &random_)) {
      to.push_back(Piece(stored).subspan(at, bytes));
      at += bytes;
    }
    EXPECT_EQ(CopyAndSumPieces(to, from, *GetParam()), SumPayload(content));
    EXPECT_EQ(stored, content);
  }
}

// Callers use the fastest form that this processor has.
TEST(CopySumOfThisProcessor, CopiesGathersAndScatters) {
  std::mt19937_64 random(testing::TestSeed());
  for (const size_t size : {size_t{0}, size_t{300'001}, (size_t{3} << 20) + 5}) {
    const std::vector<std::byte> content = RandomBytes(size, &random);
    std::vector<std::byte> copied(size);
    std::vector<std::byte> gathered(size);
    std::vector<std::byte> scattered(size);
    const size_t middle = size / 2;
    const ConstPiece in[] = {ConstPiece(content).first(middle),
                             ConstPiece(content).subspan(middle)};
    const Piece out[] = {Piece(scattered).first(middle), Piece(scattered).subspan(middle)};
    EXPECT_EQ(TotalBytes(in), size);
    EXPECT_EQ(TotalBytes(out), size);
    EXPECT_EQ(CopyAndSum(copied, content), SumPayload(content));
    EXPECT_EQ(GatherAndSum(gathered, in), SumPayload(content));
    EXPECT_EQ(ScatterAndSum(out, content), SumPayload(content));
    EXPECT_EQ(copied, content);
    EXPECT_EQ(gathered, content);
    EXPECT_EQ(scattered, content);
  }
}

}  // namespace
}  // namespace kvtier
