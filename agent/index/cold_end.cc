#include "agent/index/cold_end.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

void ColdEnd::Entered(const HostBlock& block) {
  const ClassId id{.domain = block.slot.domain(), .slot_bytes = block.slot.slot_bytes()};
  const auto [member, entered] =
      members_.emplace(block.meta.key, Member{.of = id, .parent = block.meta.parent});
  KVT_CHECK(entered);
  Wait(block.meta.key, member->second);
}

void ColdEnd::Used(const HostBlock& block) {
  const auto found = members_.find(block.meta.key);
  if (found == members_.end()) return;
  Member& member = found->second;
  Class& of = classes_.at(member.of);
  if (member.ready) {
    member.ready = false;
    of.ready.erase(block.meta.key);
  } else {
    of.waiting.Erase(block.meta.key);
  }
  Wait(block.meta.key, member);
}

void ColdEnd::Wait(const BlockKey& key, Member& member) {
  member.offered = false;
  classes_[member.of].waiting.Insert(key, member.parent);
  WaitBehindChild(member.parent, member.of);
}

void ColdEnd::WaitBehindChild(std::optional<BlockKey> parent, const ClassId& of) {
  while (parent.has_value()) {
    const auto found = members_.find(*parent);
    if (found == members_.end() || !found->second.ready || found->second.of != of) return;
    Member& member = found->second;
    member.ready = false;
    Class& its = classes_.at(of);
    its.ready.erase(*parent);
    its.waiting.InsertAt(*parent, member.parent, member.tick);
    parent = member.parent;
  }
}

bool ColdEnd::Left(const BlockKey& key) {
  const auto found = members_.find(key);
  KVT_CHECK(found != members_.end());
  const Member member = found->second;
  members_.erase(found);
  Class& of = classes_.at(member.of);
  if (member.ready) {
    of.ready.erase(key);
  } else {
    of.waiting.Erase(key);
    of.out_of_turn = true;
  }
  if (of.ready.empty() && of.waiting.size() == 0) classes_.erase(member.of);
  return !member.offered;
}

double ColdEnd::Fullness(const ClassId& id, const Class& of) const {
  const uint64_t ready_bytes = of.ready.size() * id.slot_bytes;
  const uint64_t bytes = ready_bytes + of.waiting.size() * id.slot_bytes;
  const uint64_t wanted = std::max(id.slot_bytes, bytes / kReadyDivisor);
  // Free slots in slabs that are in use are left out: they are of one size each.
  const uint64_t there = ready_bytes + host_->slots(id.domain).free_slab_bytes();
  return static_cast<double>(there) / static_cast<double>(wanted);
}

void ColdEnd::WaitAgain(Class& of) {
  for (const BlockKey& key : std::exchange(of.ready, {})) {
    Member& member = members_.at(key);
    member.ready = false;
    of.waiting.InsertAt(key, member.parent, member.tick);
  }
  of.out_of_turn = false;
}

std::optional<BlockKey> ColdEnd::TakeNext() {
  for (auto& [id, of] : classes_) {
    if (of.out_of_turn) WaitAgain(of);
  }
  while (true) {
    // The one that is shortest of room; of two alike, the first in their order.
    auto neediest = classes_.end();
    double least = 1;
    for (auto of = classes_.begin(); of != classes_.end(); ++of) {
      const double fullness = Fullness(of->first, of->second);
      if (fullness >= least || of->second.waiting.size() == 0) continue;
      least = fullness;
      neediest = of;
    }
    if (neediest == classes_.end()) return std::nullopt;
    auto& [id, of] = *neediest;
    const BlockKey key = *of.waiting.Victim();  // Nobody is held there: there is one.
    Member& member = members_.at(key);
    member.tick = of.waiting.TickOf(key);
    of.waiting.Erase(key);
    of.ready.insert(key);
    member.ready = true;
    if (!std::exchange(member.offered, true)) return key;
  }
}

void ColdEnd::Audit() const {
  size_t ready = 0;
  size_t waiting = 0;
  for (const auto& [key, member] : members_) {
    const Class& of = classes_.at(member.of);
    KVT_CHECK(of.waiting.Contains(key) != member.ready);
    KVT_CHECK(member.offered || !member.ready);
    KVT_CHECK(of.ready.contains(key) == member.ready);
    ready += member.ready ? 1 : 0;
    waiting += member.ready ? 0 : 1;
  }
  for (const auto& [id, of] : classes_) {
    of.waiting.Audit();
    KVT_CHECK(!of.ready.empty() || of.waiting.size() > 0);
    ready -= of.ready.size();
    waiting -= of.waiting.size();
  }
  KVT_CHECK(waiting == 0 && ready == 0);
}

}  // namespace kvtier
