#include "client/lanes/outcome_slab.h"

#include <new>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr std::align_val_t kPage{4096};
constexpr size_t kBytes = kCopyDirections * OutcomeSlab::kBatches * sizeof(BlockOutcomes);
static_assert(kBytes % static_cast<size_t>(kPage) == 0);

}  // namespace

absl::StatusOr<std::unique_ptr<OutcomeSlab>> OutcomeSlab::Pin(Device* device) {
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
  // A lost device may have forgotten it.
  device_->Unpin(bytes_).IgnoreError();
  ::operator delete(bytes_.data(), kPage);
}

absl::StatusOr<std::vector<BlockOutcomes*>> OutcomeSlab::Take(CopyDirection direction,
                                                              size_t batches) {
  std::vector<BlockOutcomes*>& from = free(direction);
  if (from.size() < batches) {
    return absl::ResourceExhaustedError(absl::StrCat("outcomes: a job of ", batches, " batches; ",
                                                     from.size(), " of ", kBatches,
                                                     " are free in its direction"));
  }
  const std::vector<BlockOutcomes*> taken(from.end() - batches, from.end());
  from.resize(from.size() - batches);
  for (BlockOutcomes* const outcomes : taken) *outcomes = {};
  return taken;
}

void OutcomeSlab::GiveBack(CopyDirection direction, std::span<BlockOutcomes* const> outcomes) {
  free(direction).insert(free(direction).end(), outcomes.begin(), outcomes.end());
}

}  // namespace kvtier
