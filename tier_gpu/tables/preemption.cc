#include "tier_gpu/tables/preemption.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

bool IsAhead(const SequenceFacts& a, const SequenceFacts& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.started < b.started;
}

// Gain counts the slots that a set of victims frees. They free a slot if they have all of its
// holds.
class Gain {
 public:
  explicit Gain(const BlockTable& tables) : tables_(tables) {}
  void Add(SequenceId victim) {
    ForEachSlot(victim, [this](uint32_t slot) {
      if (++theirs_[slot] == tables_.slot_table().holds(slot)) ++slots_;
    });
  }
  void Remove(SequenceId victim) {
    ForEachSlot(victim, [this](uint32_t slot) {
      if (theirs_[slot]-- == tables_.slot_table().holds(slot)) --slots_;
    });
  }
  size_t slots() const { return slots_; }

 private:
  template <typename Fn>
  void ForEachSlot(SequenceId victim, Fn fn) {
    const std::span<const uint32_t> slots = *tables_.slots(victim);
    for (const uint32_t slot : slots) {
      if (slot != kNoSlot) fn(slot);
    }
  }

  const BlockTable& tables_;
  absl::flat_hash_map<uint32_t, uint32_t> theirs_;  // Number of the victims' holds, by slot.
  size_t slots_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<SequenceId>> PickVictims(const BlockTable& tables,
                                                    SequenceId beneficiary, size_t slots) {
  KVT_ASSIGN_OR_RETURN(const SequenceFacts self, tables.Facts(beneficiary));
  std::vector<std::pair<SequenceFacts, SequenceId>> behind;
  for (const SequenceId id : tables.Sequences()) {
    const SequenceFacts facts = *tables.Facts(id);
    if (IsAhead(self, facts)) behind.emplace_back(facts, id);
  }
  std::sort(behind.begin(), behind.end(),
            [](const auto& a, const auto& b) { return IsAhead(b.first, a.first); });

  Gain gain(tables);
  std::vector<SequenceId> picked;
  for (const auto& [facts, id] : behind) {
    if (gain.slots() >= slots) break;
    gain.Add(id);
    picked.push_back(id);
  }
  if (gain.slots() < slots) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the ", behind.size(), " sequences behind sequence ", self.started, " hold ",
                     gain.slots(), " slots of their own, and ", slots, " are needed"));
  }
  // Removes victims without which enough slots are freed; those farthest ahead are tried first.
  std::vector<SequenceId> victims;
  for (auto id = picked.rbegin(); id != picked.rend(); ++id) {
    gain.Remove(*id);
    if (gain.slots() >= slots) continue;
    gain.Add(*id);
    victims.push_back(*id);
  }
  std::reverse(victims.begin(), victims.end());
  return victims;
}

std::optional<SequenceId> PickSwapIn(const BlockTable& tables) {
  std::optional<SequenceId> first;
  SequenceFacts ahead;
  for (const SequenceId id : tables.Sequences()) {
    const SequenceFacts facts = *tables.Facts(id);
    if (!facts.swapped_out || (first && !IsAhead(facts, ahead))) continue;
    first = id;
    ahead = facts;
  }
  return first;
}

}  // namespace kvtier
