// Tests copies between pieces and slots, on plain memory.
#include "client/block_copy.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvtier {
namespace {

constexpr size_t kCopiedBytes = 5000;  // Bytes copied of a slot of 8192.
constexpr size_t kCopiedSlot = 8192;

std::vector<std::byte> CountingBytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST(BlockCopy, PiecesFillASlotAndZerosFillItsTail) {
  const std::vector<std::byte> content = CountingBytes(kCopiedBytes);
  std::vector<std::byte> memory(kCopiedSlot + 1, std::byte{0xee});
  const ConstPiece from[] = {
      ConstPiece(content).first(4096), {}, ConstPiece(content).subspan(4096)};
  const auto sum = CopyIntoSlot(3, Piece(memory).first(kCopiedBytes), from);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, SumPayload(content));
  EXPECT_TRUE(std::equal(content.begin(), content.end(), memory.begin()));
  EXPECT_EQ(std::count(memory.begin() + kCopiedBytes, memory.end() - 1, std::byte{0}),
            kCopiedSlot - kCopiedBytes);
  EXPECT_EQ(memory.back(), std::byte{0xee}) << "the next slot";
}

TEST(BlockCopy, ABlockFillsPieces) {
  const std::vector<std::byte> content = CountingBytes(kCopiedBytes);
  std::vector<std::byte> copied(kCopiedBytes);
  const Piece to[] = {Piece(copied).first(1), Piece(copied).subspan(1)};
  const auto sum = CopyFromBlock(3, content, to);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, SumPayload(content));
  EXPECT_EQ(copied, content);
}

TEST(BlockCopy, PiecesOfAnotherSizeAreNamedAndNothingIsWritten) {
  for (const size_t size : {size_t{0}, kCopiedBytes - 1, kCopiedBytes + 1}) {
    std::vector<std::byte> mine(size, std::byte{1});
    std::vector<std::byte> slot(kCopiedSlot, std::byte{0xee});
    const ConstPiece from[] = {mine};
    const Piece to[] = {mine};
    const auto in = CopyIntoSlot(3, Piece(slot).first(kCopiedBytes), from);
    const auto out = CopyFromBlock(3, Piece(slot).first(kCopiedBytes), to);
    EXPECT_EQ(in.status(), out.status());
    EXPECT_EQ(in.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(in.status().message(), "block 3: pieces have " + std::to_string(size) +
                                         " bytes; must have the block's 5000");
    EXPECT_EQ(std::count(slot.begin(), slot.end(), std::byte{0xee}), kCopiedSlot);
    EXPECT_EQ(std::count(mine.begin(), mine.end(), std::byte{1}), size);
  }
}

TEST(BlockCopy, ABlockWithoutMemoryIsRefused) {
  EXPECT_EQ(CopyIntoSlot(1, {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyFromBlock(1, {}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BlockCopy, AnotherSumThanPromisedIsDataLoss) {
  const PayloadSum sum{.hi = 1, .lo = 0xab};
  EXPECT_TRUE(CheckLeasedSum(2, sum, sum).ok());
  const absl::Status differs = CheckLeasedSum(2, sum, PayloadSum{.hi = 1, .lo = 0xac});
  EXPECT_EQ(differs.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(differs.message(),
            "block 2: its bytes have the sum 000000000000000100000000000000ab, the lease says "
            "000000000000000100000000000000ac");
}

}  // namespace
}  // namespace kvtier
