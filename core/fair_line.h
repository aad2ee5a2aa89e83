// FairLine queues things of several parties. The parties take turns (TurnOrder) by their weights,
// and the things of one party leave in the order in which they came. So while one party has
// thousands waiting, a thing of another party waits for about one of them.
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

  // Adds the thing and returns its place, for Remove(); valid until the thing leaves.
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
  // Removes the thing without a turn. REQUIRES: it is of the party, and waits at `place`.
  T Remove(size_t party, Place place) {
    T thing = std::move(place->thing);
    lines_[party].erase(place);
    --size_;
    return thing;
  }
  // Removes and returns all things, those of each party in the order in which they came.
  std::vector<T> TakeAll() {
    std::vector<T> all;
    all.reserve(size_);
    for (size_t party = 0; party < lines_.size(); ++party) TakeOf(party, &all);
    return all;
  }
  // Removes the party's things and adds them to `taken`, in the order in which they came.
  void TakeOf(size_t party, std::vector<T>* taken) {
    if (!Waits(party)) return;
    for (Waiting& waiting : lines_[party]) taken->push_back(std::move(waiting.thing));
    size_ -= lines_[party].size();
    lines_[party].clear();
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
