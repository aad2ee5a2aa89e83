#include "client/block_copy.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/space.h"

namespace kvtier {

namespace {

absl::Status CheckSizes(size_t i, size_t block_bytes, size_t piece_bytes) {
  if (block_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", i, " is not mapped in this process; must be in host memory"));
  }
  if (piece_bytes != block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("block ", i, ": pieces have ", piece_bytes,
                                                   " bytes; must have the block's ", block_bytes));
  }
  return absl::OkStatus();
}

std::string HexOf(const PayloadSum& sum) {
  return absl::StrCat(absl::Hex(sum.hi, absl::kZeroPad16), absl::Hex(sum.lo, absl::kZeroPad16));
}

}  // namespace

absl::StatusOr<PayloadSum> CopyIntoSlot(size_t i, Piece slot, std::span<const ConstPiece> from) {
  if (absl::Status sizes = CheckSizes(i, slot.size(), TotalBytes(from)); !sizes.ok()) return sizes;
  const PayloadSum sum = GatherAndSum(slot, from);
  ZeroTail(slot);
  return sum;
}

void ZeroTail(Piece slot) {
  std::fill_n(slot.data() + slot.size(), SlotBytes(slot.size()) - slot.size(), std::byte{0});
}

absl::StatusOr<PayloadSum> CopyFromBlock(size_t i, ConstPiece block, std::span<const Piece> to) {
  if (absl::Status sizes = CheckSizes(i, block.size(), TotalBytes(to)); !sizes.ok()) return sizes;
  return ScatterAndSum(to, block);
}

absl::Status CheckLeasedSum(size_t i, const PayloadSum& copied, const PayloadSum& promised) {
  if (copied == promised) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("block ", i, ": its bytes have the sum ", HexOf(copied),
                                          ", the lease says ", HexOf(promised)));
}

}  // namespace kvtier
