// FairLine is a line of things of several parties. They leave by turns of the parties (TurnOrder)
// and their weights, and those of one party in the order in which they came. So a party whose
// things wait by the thousand makes another's wait for one of them.
//
// Pure bookkeeping. One thread.
#ifndef KVTIER_CORE_FAIR_LINE_H_
#define KVTIER_CORE_FAIR_LINE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/turn_order.h"

namespace kvtier {

template <typename T>
class FairLine {
  struct Waiting {
    uint64_t cost = 0;
    T thing;
  };

 public:
  using Place = typename std::list<Waiting>::iterator;

  // Sets a party's weight in the TurnOrder.
  void SetWeight(size_t party, uint32_t weight) { order_.SetWeight(party, weight); }

  // Returns where it waits, for Remove(); valid until it leaves.
  Place Push(size_t party, uint64_t cost, T thing) {
    if (party >= lines_.size()) lines_.resize(party + 1);
    std::list<Waiting>& line = lines_[party];
    if (line.empty()) order_.Enter(party);
    ++size_;
    return line.insert(line.end(), {.cost = cost, .thing = std::move(thing)});
  }
  // Takes the next one out. REQUIRES: not empty.
  T Pop() {
    KVT_CHECK(size_ > 0);
    const size_t party = *order_.Next([this](size_t each) { return Waits(each); });
    order_.Begin(party);
    order_.Charge(party, lines_[party].front().cost);
    return Remove(party, lines_[party].begin());
  }
  // Takes it out of the line, without a turn. REQUIRES: it is of the party, and waits there.
  T Remove(size_t party, Place place) {
    T thing = std::move(place->thing);
    lines_[party].erase(place);
    --size_;
    return thing;
  }
  // Takes all out, those of each party in their order.
  std::vector<T> TakeAll() {
    std::vector<T> all;
    all.reserve(size_);
    for (std::list<Waiting>& line : lines_) {
      for (Waiting& waiting : line) all.push_back(std::move(waiting.thing));
      line.clear();
    }
    size_ = 0;
    return all;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  bool Waits(size_t party) const { return party < lines_.size() && !lines_[party].empty(); }

  std::vector<std::list<Waiting>> lines_;  // Waiting items of each party.
  TurnOrder order_;
  size_t size_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_FAIR_LINE_H_
