#include "agent/gpu/slot_grants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/space.h"

namespace kvtier {

absl::StatusOr<std::vector<uint32_t>> SlotGrants::Take(const BlockRun& run, uint32_t count) {
  if (run.domain != domain_ || run.lengths.any ||
      SlotBytes(run.lengths.longest) != pool_->slot_bytes()) {
    return absl::InvalidArgumentError("space_id: no GPU pool fits this space");
  }
  auto& held = held_[run.session];
  if (count > kMaxSlotsPerSession - held.size()) {
    return absl::ResourceExhaustedError(absl::StrCat("slots: ", count, " more than the ",
                                                     held.size(), " that the session holds; ",
                                                     kMaxSlotsPerSession, " are the limit"));
  }
  std::vector<uint32_t> taken;
  while (taken.size() < count) {
    absl::StatusOr<GpuSlot> slot = evictor_->ReserveGpu();
    if (!slot.ok() && taken.empty()) return slot.status();
    if (!slot.ok()) break;
    taken.push_back(slot->ref().index);
    GpuHold hold = workers_->Hold(run.session, slot->ref());
    held.emplace(taken.back(), Grant{.slot = *std::move(slot), .hold = std::move(hold)});
  }
  return taken;
}

void SlotGrants::Release(SessionId session, std::span<const uint32_t> slots) {
  const auto found = held_.find(session);
  if (found == held_.end()) return;
  for (const uint32_t slot : slots) {
    found->second.erase(slot);
  }
}

size_t SlotGrants::EndSession(SessionId session) {
  const auto found = held_.find(session);
  if (found == held_.end()) return 0;
  const size_t slots = found->second.size();
  if (slots == 0) held_.erase(found);
  return slots;
}

size_t SlotGrants::size() const {
  size_t slots = 0;
  for (const auto& [session, held] : held_) slots += held.size();
  return slots;
}

uint64_t SlotGrants::UnusedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [session, held] : held_) {
    const std::shared_ptr<const GpuWorker> worker = workers_->Find(session);
    if (worker == nullptr || worker->hung_up) continue;
    // The word is the worker's to write: it speaks for no more than it holds.
    bytes +=
        std::min(worker->words->UnusedBytes(worker->number), held.size() * pool_->slot_bytes());
  }
  return bytes;
}

}  // namespace kvtier
