// DeadlineSlots holds items that end at a deadline unless they are erased before. Each lies in a
// slot that its id names, and slots are used again: a call adds and erases some dozens of items,
// and neither asks for memory nor looks a key up. An id is never used again.
//
// Adding, finding and erasing an item takes the same time with many items as with few, except that
// an added item is moved past each item with a later deadline. Memory is that of the largest number
// of items so far.
//
// Invariants, checked by Audit(): a slot is free or has an item; the items with a deadline are in
// the order of their deadlines, those of one deadline in the order in which they came (overdue ones
// excepted).
#ifndef KVTIER_AGENT_SESSIONS_DEADLINE_SLOTS_H_
#define KVTIER_AGENT_SESSIONS_DEADLINE_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "core/check.h"

namespace kvtier {

// `Id` is an enum of uint64_t; 0 is no id.
template <typename Id, typename Item>
class DeadlineSlots {
 public:
  Id Add(Item item, absl::Time deadline) {
    const uint32_t number = TakeSlot();
    Slot& slot = slots_[number];
    slot.id = Id{(++added_ << kSlotBits) | number};
    slot.item.emplace(std::move(item));
    slot.deadline = deadline;
    Link(number);
    ++size_;
    return slot.id;
  }
  // Returns the item, whose address stays the same until it is erased; nullptr: no item has that
  // id, or it was erased.
  Item* Find(Id id) {
    const Slot* const slot = SlotOf(id);
    return slot == nullptr ? nullptr : &slots_[NumberOf(id)].item.value();
  }
  const Item* Find(Id id) const {
    const Slot* const slot = SlotOf(id);
    return slot == nullptr ? nullptr : &slot->item.value();
  }
  // REQUIRES of Erase() and the functions up to DeadlineOf(): Find() finds the item.
  void Erase(Id id) {
    KVT_CHECK(SlotOf(id) != nullptr);
    const uint32_t number = NumberOf(id);
    Slot& slot = slots_[number];
    if (slot.is_timed) Unlink(number);
    slot.id = Id{};
    slot.item.reset();
    slot.later = std::exchange(free_, number);
    --size_;
  }
  // Lets the item stay until it is erased.
  void DropDeadline(Id id) {
    KVT_CHECK(SlotOf(id) != nullptr);
    if (slots_[NumberOf(id)].is_timed) Unlink(NumberOf(id));
  }
  // Gives the item another deadline.
  void Postpone(Id id, absl::Time deadline) {
    KVT_CHECK(SlotOf(id) != nullptr);
    const uint32_t number = NumberOf(id);
    if (slots_[number].is_timed) Unlink(number);
    slots_[number].deadline = deadline;
    Link(number);
  }
  // Makes the item the first that is overdue, whatever `now` is.
  void MakeOverdue(Id id) {
    KVT_CHECK(SlotOf(id) != nullptr);
    const uint32_t number = NumberOf(id);
    Slot& slot = slots_[number];
    if (slot.is_timed) Unlink(number);
    slot.deadline = absl::InfinitePast();
    slot.is_timed = true;
    slot.earlier = kNone;
    slot.later = std::exchange(earliest_, number);
    (slot.later == kNone ? latest_ : slots_[slot.later].earlier) = number;
  }
  absl::Time DeadlineOf(Id id) const {
    KVT_CHECK(SlotOf(id) != nullptr);
    return slots_[NumberOf(id)].deadline;
  }
  // Returns the id of the item with the earliest deadline, if that lies before `now`; else nullopt.
  std::optional<Id> Overdue(absl::Time now) const {
    if (earliest_ == kNone || slots_[earliest_].deadline >= now) return std::nullopt;
    return slots_[earliest_].id;
  }
  // Calls `visit` with the id of each item and the item; it may erase that one, and no other.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.item.has_value()) visit(slot.id, *slot.item);
    }
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.item.has_value()) visit(slot.id, *slot.item);
    }
  }
  size_t size() const { return size_; }
  void Audit() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  // An id is a serial number and, in its low bits, the number of the slot.
  static constexpr int kSlotBits = 20;
  struct Slot {
    Id id{};  // Id of the item; 0: the slot is free.
    std::optional<Item> item;
    absl::Time deadline;
    // Neighbours in the order of the deadlines; `later` of a free slot is the next free one.
    uint32_t earlier = kNone;
    uint32_t later = kNone;
    bool is_timed = false;  // Whether the slot is in that order.
  };
  static uint32_t NumberOf(Id id) {
    return static_cast<uint32_t>(static_cast<uint64_t>(id) & ((uint64_t{1} << kSlotBits) - 1));
  }
  const Slot* SlotOf(Id id) const {
    const uint32_t number = NumberOf(id);
    const bool is_there = id != Id{} && number < slots_.size() && slots_[number].id == id;
    return is_there ? &slots_[number] : nullptr;
  }
  uint32_t TakeSlot() {
    if (free_ != kNone) return std::exchange(free_, slots_[free_].later);
    KVT_CHECK(slots_.size() < size_t{1} << kSlotBits);
    slots_.emplace_back();
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  void Link(uint32_t number);
  void Unlink(uint32_t number);

  uint64_t added_ = 0;
  size_t size_ = 0;
  std::deque<Slot> slots_;  // Slots by number, in a deque so that an item's address never changes.
  uint32_t free_ = kNone;
  uint32_t earliest_ = kNone;
  uint32_t latest_ = kNone;
};

template <typename Id, typename Item>
void DeadlineSlots<Id, Item>::Link(uint32_t number) {
  Slot& slot = slots_[number];
  slot.is_timed = true;
  // Most items go last, because they all last equally long.
  slot.earlier = latest_;
  while (slot.earlier != kNone && slots_[slot.earlier].deadline > slot.deadline) {
    slot.earlier = slots_[slot.earlier].earlier;
  }
  uint32_t& behind = slot.earlier == kNone ? earliest_ : slots_[slot.earlier].later;
  slot.later = std::exchange(behind, number);
  (slot.later == kNone ? latest_ : slots_[slot.later].earlier) = number;
}

template <typename Id, typename Item>
void DeadlineSlots<Id, Item>::Unlink(uint32_t number) {
  Slot& slot = slots_[number];
  slot.is_timed = false;
  (slot.earlier == kNone ? earliest_ : slots_[slot.earlier].later) = slot.later;
  (slot.later == kNone ? latest_ : slots_[slot.later].earlier) = slot.earlier;
}

template <typename Id, typename Item>
void DeadlineSlots<Id, Item>::Audit() const {
  size_t items = 0;
  size_t timed = 0;
  for (uint32_t number = 0; number < slots_.size(); ++number) {
    const Slot& slot = slots_[number];
    KVT_CHECK(slot.item.has_value() == (slot.id != Id{}));
    KVT_CHECK(slot.id == Id{} ? !slot.is_timed : NumberOf(slot.id) == number);
    items += slot.item.has_value() ? 1 : 0;
    timed += slot.is_timed ? 1 : 0;
  }
  KVT_CHECK(items == size_);
  size_t linked = 0;
  uint32_t earlier = kNone;
  absl::Time deadline = absl::InfinitePast();
  for (uint32_t number = earliest_; number != kNone; number = slots_[number].later) {
    const Slot& slot = slots_[number];
    KVT_CHECK(slot.is_timed && slot.earlier == earlier && slot.deadline >= deadline);
    earlier = number;
    deadline = slot.deadline;
    ++linked;
  }
  KVT_CHECK(linked == timed && latest_ == earlier);
  size_t free = 0;
  for (uint32_t number = free_; number != kNone; number = slots_[number].later) ++free;
  KVT_CHECK(free + items == slots_.size());
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_DEADLINE_SLOTS_H_
