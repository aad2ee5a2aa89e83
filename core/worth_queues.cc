#include "core/worth_queues.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr Moment kForever = std::numeric_limits<Moment>::max();

// Returns the moment at which an item that was used at `last` is `seconds` old.
Moment After(Moment last, double seconds) {
  if (!std::isfinite(seconds)) return kForever;
  return last + static_cast<Moment>(std::ceil(seconds * 1e6));
}

// Returns by what weight and cost multiply a worth.
double FactorOf(const WorthQueues::QueueId& id) { return std::exp2((id.weight + id.cost) / 2.0); }

}  // namespace

uint32_t WorthQueues::LookUp(const QueueId& id) {
  const auto [number, added] = numbers_.try_emplace(id, static_cast<uint32_t>(queues_.size()));
  if (added) queues_.push_back({.id = id, .factor = FactorOf(id)});
  return number->second;
}

WorthQueues::Choice WorthQueues::RankOf(Ranked ranked, const QueueId& id, Moment last,
                                        Moment now) const {
  Choice choice{.last = last};
  choice.worth = ranked == Ranked::kByWeight
                     ? id.weight
                     : FactorOf(id) * hazards_->Worth(
                                          id.of, ReuseHazards::BucketOf(SecondsBetween(last, now)));
  return choice;
}

bool WorthQueues::IsKnown(const Queue& queue, Moment now) const {
  return queue.known && now < queue.until && queue.conclusion == hazards_->conclusions();
}

void WorthQueues::Settle(Queue* queue) {
  if (!queue->added) return;
  queue->items.emplace_hint(queue->items.end(), queue->added->first, queue->added->second);
  queue->added.reset();
}

void WorthQueues::Add(uint32_t number, Moment last, Item item) {
  Queue& queue = queues_[number];
  if (IsEmpty(queue)) {
    queue.place = busy_.size();
    busy_.push_back(number);
  }
  Settle(&queue);
  queue.added = {last, item};
  ++size_;
  // An item that is younger than all that were there at the look enters each bucket after them, so
  // it changes nothing that was found, unless a bucket had no item to come.
  if (queue.open || last < queue.youngest) queue.known = queue.passed = false;
}

void WorthQueues::Remove(uint32_t number, Moment last) {
  Queue& queue = queues_[number];
  if (queue.added && queue.added->first == last) {
    queue.added.reset();
  } else {
    KVT_CHECK(queue.items.erase(last) == 1);
  }
  --size_;
  if (queue.cheapest == last) queue.known = false;
  if (!IsEmpty(queue)) return;
  queues_[busy_.back()].place = queue.place;
  busy_[queue.place] = busy_.back();
  busy_.pop_back();
}

bool WorthQueues::Contains(const QueueId& id, Moment last, Item item) const {
  const auto number = numbers_.find(id);
  if (number == numbers_.end()) return false;
  const Queue& queue = queues_[number->second];
  if (queue.added && queue.added->first == last) return queue.added->second == item;
  const auto found = queue.items.find(last);
  return found != queue.items.end() && found->second == item;
}

WorthQueues::Found WorthQueues::OldestIn(const Queue& queue, size_t bucket, Moment now) const {
  // The oldest item that has not left the bucket: After(last, end) > now.
  const Moment end = After(0, ReuseHazards::EndOf(bucket));
  const auto oldest = now < end ? queue.items.begin() : queue.items.upper_bound(now - end);
  if (oldest == queue.items.end()) return {};
  const Moment enters = After(oldest->first, ReuseHazards::BeginOf(bucket));
  if (enters <= now) return {.item = *oldest};
  return {.enters = enters};
}

void WorthQueues::LookForCheapest(Queue* queue, Moment now) const {
  // After the cheapest item has left, the search for the next one begins at its bucket.
  if (!queue->passed || now >= queue->enters || queue->conclusion != hazards_->conclusions()) {
    queue->rank = 0;
    queue->enters = kForever;
    queue->open = false;
    queue->youngest = 0;
  }
  queue->known = queue->passed = true;
  // The youngest of an earlier look may have left since, and was what entered the buckets that were
  // passed first: one that is older than it may enter them sooner.
  queue->youngest = std::max<Moment>(queue->youngest, queue->items.rbegin()->first);
  queue->conclusion = hazards_->conclusions();
  const auto& ranking = hazards_->Ranking(queue->id.of);
  for (; queue->rank < ranking.size(); ++queue->rank) {
    const size_t bucket = ranking[queue->rank];
    const Found found = OldestIn(*queue, bucket, now);
    if (found.item.has_value()) {
      queue->cheapest = found.item->first;
      queue->until = std::min(queue->enters, After(queue->cheapest, ReuseHazards::EndOf(bucket)));
      return;
    }
    if (found.enters.has_value()) {
      queue->enters = std::min(queue->enters, *found.enters);
    } else {
      queue->open = true;
    }
  }
  KVT_CHECK(false);  // Unreachable: each item is in some bucket.
}

WorthQueues::Choice WorthQueues::FirstOf(Ranked ranked, Queue* queue, Moment now) const {
  if (ranked != Ranked::kByWorth) {
    return {.last = queue->items.begin()->first, .worth = static_cast<double>(queue->id.weight)};
  }
  if (!IsKnown(*queue, now)) LookForCheapest(queue, now);
  return {.last = queue->cheapest,
          .worth = WorthIn(*queue, hazards_->Ranking(queue->id.of)[queue->rank])};
}

std::optional<WorthQueues::Choice> WorthQueues::First(Ranked ranked, Moment now, uint32_t group) {
  std::optional<Choice> first;
  uint32_t first_queue = 0;
  for (const uint32_t number : busy_) {
    Queue& queue = queues_[number];
    if (group != kAllGroups && queue.id.group != group) continue;
    Settle(&queue);
    const Choice choice = FirstOf(ranked, &queue, now);
    if (first.has_value() && !choice.LeavesBefore(*first)) continue;
    first = choice;
    first_queue = number;
  }
  if (first.has_value()) first->item = queues_[first_queue].items.find(first->last)->second;
  return first;
}

WorthQueues::Walk::Walk(WorthQueues* queues, Ranked ranked, Moment now)
    : queues_(queues), ranked_(ranked), now_(now) {
  for (const uint32_t number : queues_->busy_) {
    Queue& queue = queues_->queues_[number];
    Settle(&queue);
    Cursor cursor{.queue = number, .choice = queues_->FirstOf(ranked_, &queue, now_)};
    cursor.rank = queue.rank;
    cursor.choice.item = queue.items.find(cursor.choice.last)->second;
    cursors_.push_back(cursor);
  }
}

bool WorthQueues::Walk::Advance(Cursor* cursor) const {
  const Queue& queue = queues_->queues_[cursor->queue];
  const auto next = queue.items.upper_bound(cursor->choice.last);
  if (ranked_ != Ranked::kByWorth) {
    if (next == queue.items.end()) return false;
    cursor->choice.item = next->second;
    cursor->choice.last = next->first;
    return true;
  }
  // Takes the next younger item, if it is in the same bucket; else the oldest item of the next
  // bucket of the ranking that has any.
  const auto& ranking = queues_->hazards_->Ranking(queue.id.of);
  std::optional<std::pair<Moment, Item>> item;
  if (next != queue.items.end() &&
      ReuseHazards::BucketOf(SecondsBetween(next->first, now_)) == ranking[cursor->rank]) {
    item = *next;
  }
  while (!item.has_value() && ++cursor->rank < ranking.size()) {
    item = queues_->OldestIn(queue, ranking[cursor->rank], now_).item;
  }
  if (!item.has_value()) return false;
  cursor->choice = {.item = item->second,
                    .last = item->first,
                    .worth = queues_->WorthIn(queue, ranking[cursor->rank])};
  return true;
}

std::optional<WorthQueues::Choice> WorthQueues::Walk::Next() {
  const auto first = std::ranges::min_element(
      cursors_, [](const Cursor& a, const Cursor& b) { return a.choice.LeavesBefore(b.choice); });
  if (first == cursors_.end()) return std::nullopt;
  const Choice choice = first->choice;
  if (!Advance(&*first)) cursors_.erase(first);
  return choice;
}

}  // namespace kvtier
