#include "agent/gpu/slot_grants.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/status_macros.h"

namespace kvtier {

absl::Status SlotGrants::CheckRoom(SessionId session, size_t count) const {
  const auto found = held_.find(session);
  const size_t held = found == held_.end() ? 0 : found->second.size();
  if (count + held <= kMaxSlotsPerSession) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("slots: the session holds ", held,
                                                   " and asks for ", count, "; it may hold ",
                                                   kMaxSlotsPerSession, ", so release some"));
}

void SlotGrants::Grant(SessionId session, GpuSlot slot) {
  const SlotRef ref = slot.ref();
  GpuHold hold = workers_->Hold(session, ref);
  held_[session].emplace(ref.index, Granted{.slot = std::move(slot), .hold = std::move(hold)});
}

absl::StatusOr<std::vector<uint32_t>> SlotGrants::Take(SessionId session, uint32_t count) {
  KVT_RETURN_IF_ERROR(CheckRoom(session, count));
  std::vector<uint32_t> taken;
  while (taken.size() < count) {
    absl::StatusOr<GpuSlot> slot = evictor_->Reserve();
    if (!slot.ok() && taken.empty()) return slot.status();
    if (!slot.ok()) break;
    taken.push_back(slot->ref().index);
    Grant(session, *std::move(slot));
  }
  return taken;
}

absl::StatusOr<std::vector<GpuSlot>> SlotGrants::HoldAgain(SessionId session,
                                                           std::span<const uint32_t> slots) const {
  const auto found = held_.find(session);
  absl::flat_hash_set<uint32_t> seen;
  std::vector<GpuSlot> again;
  again.reserve(slots.size());
  for (const uint32_t slot : slots) {
    const bool is_held = found != held_.end() && found->second.contains(slot);
    if (!is_held || !seen.insert(slot).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("slots: ", slot,
                       is_held ? "; must be named once" : "; must be one that the session holds"));
    }
    again.push_back(pool_->HoldAgain(found->second.at(slot).slot.ref()));
  }
  return again;
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
    // The worker writes this number itself, so at most the bytes that the worker holds are counted.
    bytes +=
        std::min(worker->words->UnusedBytes(worker->number), held.size() * pool_->slot_bytes());
  }
  return bytes;
}

}  // namespace kvtier
