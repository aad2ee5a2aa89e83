#include "client/lanes/outcome_slab.h"

#include <new>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr std::align_val_t kPage{4096};

}  // namespace

absl::StatusOr<std::unique_ptr<OutcomeSlab>> OutcomeSlab::Pin(Device* device) {
  constexpr size_t kBytes = kCopyDirections * kBatches * sizeof(BlockOutcomes);
  static_assert(kBytes % static_cast<size_t>(kPage) == 0);
  const std::span bytes(static_cast<std::byte*>(::operator new(kBytes, kPage)), kBytes);
  if (const absl::Status pinned = device->Pin(bytes); !pinned.ok()) {
    ::operator delete(bytes.data(), kPage);
    return pinned;
  }
  return absl::WrapUnique(new OutcomeSlab(device, bytes));
}

OutcomeSlab::OutcomeSlab(Device* device, std::span<std::byte> bytes)
    : device_(device), bytes_(bytes) {
  auto* const all = reinterpret_cast<BlockOutcomes*>(bytes.data());
  for (size_t i = 0; i < kCopyDirections * kBatches; ++i) {
    free_[i / kBatches].push_back(new (&all[i]) BlockOutcomes);
  }
}

OutcomeSlab::~OutcomeSlab() {
  for (const auto& free : free_) KVT_CHECK(free.size() == kBatches);
  // A lost device may no longer know the memory.
  device_->Unpin(bytes_).IgnoreError();
  ::operator delete(bytes_.data(), kPage);
}

absl::StatusOr<OutcomeSlab::Lent> OutcomeSlab::Lend(CopyDirection direction, size_t batches) {
  std::vector<BlockOutcomes*>& from = free_[static_cast<size_t>(direction)];
  if (from.size() < batches) {
    return absl::ResourceExhaustedError(
        absl::StrCat("outcomes: a job needs room for ", batches, " batches, and ", from.size(),
                     " of ", kBatches, " are free in its direction; try again"));
  }
  Lent lent;
  lent.free_ = &from;
  lent.batches_.assign(from.end() - static_cast<ptrdiff_t>(batches), from.end());
  from.resize(from.size() - batches);
  for (BlockOutcomes* const outcomes : lent.batches_) *outcomes = {};
  return lent;
}

OutcomeSlab::Lent::~Lent() {
  if (free_ != nullptr) free_->insert(free_->end(), batches_.begin(), batches_.end());
}

}  // namespace kvtier
