// NumberedOrder is an EvictionOrder for tests, whose blocks are numbers.
#ifndef KVTIER_TESTS_CORE_NUMBERED_ORDER_H_
#define KVTIER_TESTS_CORE_NUMBERED_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "core/eviction_order.h"
#include "tests/testing/numbered_key.h"

namespace kvtier {

using Numbers = std::vector<uint64_t>;

class NumberedOrder {
 public:
  explicit NumberedOrder(EvictionPolicy policy, uint64_t attention_length = 0)
      : order_(policy, [this](const BlockKey& key) { return Find(key); }, attention_length) {
    order_.AdvanceTo(now_);
  }
  NumberedOrder(NumberedOrder&&) = delete;

  // Gives access to the order; but insert and erase blocks by Insert() and Erase() of this class.
  EvictionOrder* operator->() { return &order_; }

  // Returns NumberedKey(number), and makes NumberOf() know it.
  static BlockKey KeyOf(uint64_t number) {
    const BlockKey key = testing::NumberedKey(number);
    numbers_[key] = number;
    return key;
  }
  // Returns the number of a key; none: there is no key. REQUIRES: KeyOf() made it.
  static std::optional<uint64_t> NumberOf(const std::optional<BlockKey>& key) {
    return key.has_value() ? std::optional(numbers_.at(*key)) : std::nullopt;
  }
  static EvictionOrder::Newcomer Comes(uint64_t number, std::optional<uint64_t> parent = {}) {
    EvictionOrder::Newcomer newcomer{.key = KeyOf(number)};
    if (parent.has_value()) newcomer.parent = KeyOf(*parent);
    return newcomer;
  }
  EvictionOrder::Place Insert(uint64_t number, std::optional<uint64_t> parent = {}) {
    return Insert(Comes(number, parent));
  }
  EvictionOrder::Place Insert(const EvictionOrder::Newcomer& newcomer) {
    return places_[newcomer.key] = order_.Insert(newcomer);
  }
  // Inserts the chain first <- first + 1 <- ... <- last, its head first.
  void InsertChain(uint64_t first, uint64_t last) {
    Insert(first);
    for (uint64_t number = first + 1; number <= last; ++number) Insert(number, number - 1);
  }
  bool Contains(uint64_t number) const { return places_.contains(testing::NumberedKey(number)); }
  // The functions below REQUIRE that the block is a member.
  EvictionOrder::Place At(uint64_t number) const {
    return places_.at(testing::NumberedKey(number));
  }
  const ReuseState& StateOf(uint64_t number) const { return order_.StateOf(At(number)); }
  void Touch(uint64_t number) { order_.Touch(At(number)); }
  void Hold(uint64_t number) { order_.Hold(At(number)); }
  void Unhold(uint64_t number) { order_.Unhold(At(number)); }
  void Erase(uint64_t number) {
    order_.Erase(At(number));
    places_.erase(testing::NumberedKey(number));
  }

  void Wait(absl::Duration duration) {
    now_ += duration;
    order_.AdvanceTo(now_);
  }

  // Gives the order so many lessons that it follows what it learns and refuses newcomers. All
  // lessons are of one block that is used often. It is in no class that the tests use, and is
  // erased afterwards.
  void Teach() {
    constexpr uint64_t kTaught = 1'000'000;
    Insert(kTaught);
    for (int lesson = 0; lesson < 2100; ++lesson) {
      Wait(absl::Seconds(100));
      Touch(kTaught);
    }
    Erase(kTaught);
  }

  std::optional<uint64_t> Victim() { return NumberOf(order_.Victim()); }
  std::optional<uint64_t> VictimOf(uint32_t group) { return NumberOf(order_.Victim(group)); }
  // Sets aside the next block of group 0.
  std::optional<uint64_t> SetNextAside() {
    const auto next = order_.SetNextAside(0);
    return next.has_value() ? NumberOf(next->key) : std::nullopt;
  }
  // Erases victims until there is none, or `left` blocks are left, and returns them.
  Numbers EraseDownTo(size_t left) {
    Numbers gone;
    while (order_.size() > left) {
      const std::optional<uint64_t> victim = Victim();
      if (!victim.has_value()) break;
      gone.push_back(*victim);
      Erase(*victim);
      order_.Audit();
    }
    return gone;
  }

 private:
  std::optional<EvictionOrder::Place> Find(const BlockKey& key) const {
    const auto place = places_.find(key);
    return place == places_.end() ? std::nullopt : std::optional(place->second);
  }

  inline static absl::flat_hash_map<BlockKey, uint64_t> numbers_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  absl::flat_hash_map<BlockKey, EvictionOrder::Place> places_;
  EvictionOrder order_;
};

}  // namespace kvtier

#endif  // KVTIER_TESTS_CORE_NUMBERED_ORDER_H_
