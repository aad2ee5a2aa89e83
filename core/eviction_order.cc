#include "core/eviction_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Numbers of conclusions after which the order follows what it learnt, and after which it refuses
// newcomers. Until the first of them the order is LRU.
constexpr uint64_t kConclusionsToFollow = 1;
constexpr uint64_t kConclusionsToRefuse = 2;
// Blocks that are left behind at a time, at most: no operation is a long turn of the executor.
constexpr size_t kMaxLeftBehind = 1024;

bool IsAsked(Arrival arrival) { return arrival != Arrival::kPrefetched; }

}  // namespace

EvictionOrder::EvictionOrder(EvictionPolicy policy, FindPlace find, uint64_t attention_length)
    : policy_(policy),
      find_(std::move(find)),
      attention_length_(attention_length),
      learning_(policy == EvictionPolicy::kLearnt ? std::make_unique<Learning>() : nullptr),
      queues_(learning_ == nullptr ? nullptr : &learning_->hazards),
      bared_(learning_ == nullptr ? nullptr : &learning_->hazards) {}

uint32_t EvictionOrder::TakePlace(const BlockKey& key) {
  uint32_t number = free_;
  if (number == kNone) {
    number = static_cast<uint32_t>(places_.size());
    places_.Grow();
  } else {
    free_ = places_[number].next;
    // The place that is taken next is loaded from memory meanwhile.
    if (free_ != kNone) __builtin_prefetch(&places_[free_], 1);
  }
  places_[number] = {.key = key};
  return number;
}

uint32_t EvictionOrder::ParentOf(const Newcomer& newcomer) const {
  if (!newcomer.parent.has_value() || *newcomer.parent == newcomer.key) return kNone;
  const std::optional<Place> parent = find_(*newcomer.parent);
  return parent.has_value() ? static_cast<uint32_t>(*parent) : kNone;
}

uint32_t EvictionOrder::AbsentParent(const BlockKey& key) {
  uint32_t number = absent_.Find(key);
  if (number != kNone) return number;
  number = TakePlace(key);
  absent_.Insert(number);
  return number;
}

bool EvictionOrder::Descends(uint32_t number, uint32_t ancestor) const {
  while (number != kNone && number != ancestor) number = places_[number].parent;
  return number != kNone;
}

WorthQueues::QueueId EvictionOrder::QueueFor(const Node& node) const {
  WorthQueues::QueueId id{.group = static_cast<uint32_t>(node.group)};
  if (policy_ == EvictionPolicy::kLearnt) {
    id.of = node.state.Class();
    id.weight = node.state.Weight();
    id.cost = node.state.Cost();
  } else if (policy_ == EvictionPolicy::kPriority) {
    id.weight = static_cast<int8_t>(node.state.ended != 0 ? 0 : node.state.priority);
  }
  return id;
}

void EvictionOrder::Refresh(uint32_t number) {
  Node& node = places_[number];
  const bool is_bared = node.children > 0;
  const bool belongs = node.is_member != 0 && node.is_held == 0 && node.is_aside == 0 &&
                       (!is_bared || node.children == aside_.ChildrenOf(number));
  if (belongs == (node.is_queued != 0) && (!belongs || is_bared == (node.is_bared != 0))) return;
  if (node.is_queued != 0) QueuesOf(node).Remove(QueuesOf(node).QueueOf(QueueFor(node)), node.last);
  node.is_queued = belongs ? 1 : 0;
  node.is_bared = is_bared ? 1 : 0;
  if (belongs) QueuesOf(node).Add(QueuesOf(node).QueueOf(QueueFor(node)), node.last, number);
}

void EvictionOrder::TakeOut(uint32_t number) {
  BringBack(number);
  Node& node = places_[number];
  if (node.is_queued != 0) QueuesOf(node).Remove(QueuesOf(node).QueueOf(QueueFor(node)), node.last);
  node.is_queued = 0;
}

void EvictionOrder::EndAside(uint32_t number) {
  Node& node = places_[number];
  aside_.Remove(number, static_cast<uint32_t>(node.group), node.parent);
  node.is_aside = 0;
}

void EvictionOrder::BringBack(uint32_t number) {
  for (bool above = false; number != kNone && places_[number].is_aside != 0; above = true) {
    EndAside(number);
    if (above) Refresh(number);
    number = places_[number].parent;
    if (number != kNone) Refresh(number);
  }
}

ReuseState EvictionOrder::StateFor(const Newcomer& newcomer, uint32_t parent) const {
  ReuseState state;
  const auto departed = [this](const BlockKey& key) {
    return learning_ == nullptr ? std::nullopt : learning_->departed.Find(key, clock_.now());
  };
  if (const auto back = departed(newcomer.key)) {
    state = back->state;
    if (IsAsked(newcomer.arrival)) state.Use(back->seconds);
  } else if (parent != kNone) {
    state = places_[parent].state.OfChild();
  } else if (newcomer.parent.has_value()) {
    if (const auto gone = departed(*newcomer.parent)) state = gone->state.OfChild();
  }
  state.height =
      std::max<uint32_t>(state.height, std::min(newcomer.followers, ReuseState::kMaxHeight));
  state.touch_to_come =
      newcomer.arrival == Arrival::kAskedFor || newcomer.arrival == Arrival::kFromPeer ? 1 : 0;
  state.Take(newcomer.hint);
  if (attention_length_ > 0 && newcomer.parent.has_value()) {
    state.GrowDepth(parent == kNone ? 0 : places_[parent].state.depth_cost,
                    static_cast<double>(newcomer.length) / static_cast<double>(attention_length_),
                    newcomer.key.lo);
  }
  return state;
}

void EvictionOrder::Restate(uint32_t number, const ReuseState& state) {
  Node& node = places_[number];
  WorthQueues& queues = QueuesOf(node);
  if (node.is_queued != 0) queues.Remove(queues.QueueOf(QueueFor(node)), node.last);
  node.state = state;
  if (node.is_queued != 0) queues.Add(queues.QueueOf(QueueFor(node)), node.last, number);
}

// The blocks left behind are those from the conversation's last block up to the block where another
// branch begins: that of the new block, or one of another conversation.
void EvictionOrder::GoOn(uint64_t conversation, uint32_t number) {
  const auto before = learning_->conversations.GoOn(conversation, places_[number].key);
  // A block that came back is its own last one.
  if (!before.has_value() || *before == places_[number].key) return;
  const std::optional<Place> place = find_(*before);
  const uint32_t parent = places_[number].parent;
  if (!place.has_value() || static_cast<uint32_t>(*place) == parent) return;
  // Where the parent is missing, nothing tells where the block belongs.
  if (parent != kNone && places_[parent].is_member == 0) return;
  std::vector<uint32_t> behind;
  for (auto up = static_cast<uint32_t>(*place); up != kNone && behind.size() < kMaxLeftBehind;
       up = places_[up].parent) {
    if (up == number) return;  // A block that was missing came back.
    if (places_[up].is_member == 0 || places_[up].children > 1) break;
    behind.push_back(up);
  }
  for (const uint32_t left : behind) {
    ReuseState state = places_[left].state;
    state.left_behind = 1;
    Restate(left, state);
    learning_->sample.Changed(places_[left].key, state);
  }
}

void EvictionOrder::Follow(uint32_t number, uint32_t parent) {
  // Only a block that already has children can close a cycle; the rest skip the walk.
  if (places_[number].children > 0 && Descends(parent, number)) return;
  Node& above = places_[parent];
  places_[number].parent = parent;
  ++above.children;
  if (above.is_member != 0 && above.next == kNone) {
    above.next = number;
  } else {
    other_children_.emplace(parent, number);
  }
  TakeOut(parent);
  uint32_t height = 1;
  for (uint32_t up = parent; up != kNone && height <= ReuseState::kMaxHeight;
       up = places_[up].parent) {
    places_[up].state.height = std::max<uint32_t>(places_[up].state.height, height++);
  }
}

EvictionOrder::Place EvictionOrder::Insert(const Newcomer& newcomer) {
  if (learning_ != nullptr) learning_->departed.FitTo(size_ + 1);
  if (newcomer.group >= members_.size()) members_.resize(newcomer.group + 1);
  const uint32_t parent = ParentOf(newcomer);
  uint32_t number = absent_.Find(newcomer.key);
  if (number == kNone) {
    number = TakePlace(newcomer.key);
  } else {
    absent_.Erase(number);
    places_[number].next = kNone;  // The block's children stay in `other_children_`.
  }
  Node& node = places_[number];
  node.state = StateFor(newcomer, parent);
  node.last = clock_.Tick();
  node.group = newcomer.group;
  node.is_member = 1;
  node.was_aside = 0;
  ++size_;
  ++members_[newcomer.group];
  if (parent != kNone) {
    Follow(number, parent);
  } else if (newcomer.parent.has_value() && *newcomer.parent != newcomer.key) {
    Follow(number, AbsentParent(*newcomer.parent));
  }
  if (learning_ != nullptr) {
    learning_->departed.Remove(newcomer.key);
    if (IsAsked(newcomer.arrival)) learning_->sample.Asked(node.key, node.state, node.last, size_);
    if (newcomer.hint.conversation != 0) GoOn(newcomer.hint.conversation, number);
  }
  Refresh(number);
  return static_cast<Place>(number);
}

bool EvictionOrder::Admits(const Newcomer& newcomer) {
  if (followed() != EvictionPolicy::kLearnt) return true;
  if (learning_->hazards.conclusions() < kConclusionsToRefuse) return true;
  const std::optional<uint32_t> leaves = FirstToLeave(newcomer.group);
  if (!leaves.has_value()) return true;
  // Costs do not count: a request's first blocks are cheap, but no other is of use without them.
  const auto worth_of = [this](const ReuseState& state, Moment last) {
    const WorthQueues::QueueId queue = {.of = state.Class(), .weight = state.Weight()};
    return queues_.RankOf(ranked(), queue, last, clock_.now()).worth;
  };
  const Node& leaver = places_[*leaves];
  return worth_of(StateFor(newcomer, ParentOf(newcomer)), clock_.now()) >=
         worth_of(leaver.state, leaver.last);
}

void EvictionOrder::Refuse(const Newcomer& newcomer) {
  ++refused_;
  if (learning_ == nullptr) return;
  const ReuseState state = StateFor(newcomer, ParentOf(newcomer));
  const Moment now = clock_.Tick();
  learning_->departed.Remove(newcomer.key);
  learning_->departed.Add(newcomer.key, state, now);
  learning_->sample.Full(size_);
  if (IsAsked(newcomer.arrival)) learning_->sample.Asked(newcomer.key, state, now, size_);
}

void EvictionOrder::Touch(Place place, const ReuseHint& hint) {
  Node& node = At(place);
  const Moment now = clock_.Tick();
  ReuseState state = node.state;
  if (state.touch_to_come == 0) state.Use(SecondsBetween(node.last, now));
  state.touch_to_come = 0;
  state.Take(hint);
  const auto number = static_cast<uint32_t>(place);
  const bool waits = node.is_queued != 0 || node.is_aside != 0;
  if (waits) TakeOut(number);
  if (policy_ != EvictionPolicy::kFifo) node.last = now;
  node.state = state;
  node.was_aside = 0;
  if (waits) Refresh(number);
  if (learning_ != nullptr) learning_->sample.Asked(node.key, state, now, size_);
}

void EvictionOrder::Advise(Place place, const ReuseHint& hint) {
  const auto number = static_cast<uint32_t>(place);
  TakeOut(number);
  places_[number].state.TakeAdvice(hint);
  Refresh(number);
  if (learning_ != nullptr) learning_->sample.Changed(KeyOf(place), StateOf(place));
}

void EvictionOrder::NoteBelow(Place place, bool is_below) {
  ReuseState state = StateOf(place);
  state.is_below = is_below ? 1 : 0;
  Restate(static_cast<uint32_t>(place), state);
}

void EvictionOrder::Hold(Place place) {
  Node& node = At(place);
  KVT_CHECK(node.is_held == 0);
  node.is_held = 1;
  ++held_;
  if (node.is_queued != 0) Refresh(static_cast<uint32_t>(place));
}

void EvictionOrder::Unhold(Place place) {
  Node& node = At(place);
  KVT_CHECK(node.is_held != 0);
  node.is_held = 0;
  --held_;
  // Most held blocks have a child that is not set aside.
  if (node.children == 0 || aside_.size() > 0) Refresh(static_cast<uint32_t>(place));
}

void EvictionOrder::Erase(Place place) {
  const auto number = static_cast<uint32_t>(place);
  Node& node = places_[number];
  KVT_CHECK(node.is_member && !node.is_held);
  if (node.is_aside != 0) EndAside(number);
  node.is_member = 0;
  Refresh(number);
  if (learning_ != nullptr) {
    learning_->sample.Full(size_);
    learning_->departed.Add(node.key, node.state, node.last);
  }
  --size_;
  --members_[node.group];
  const uint32_t parent = std::exchange(node.parent, kNone);
  if (node.children > 0) {
    // `next` is a link of `absent_` from now on; the child moves to `other_children_`.
    if (node.next != kNone) other_children_.emplace(number, node.next);
    absent_.Insert(number);
  } else {
    FreePlace(number);
  }
  if (parent == kNone) return;
  Node& above = places_[parent];
  KVT_CHECK(above.children > 0);
  --above.children;
  if (above.is_member != 0 && above.next == number) {
    above.next = kNone;
  } else {
    KVT_CHECK(other_children_.erase({parent, number}) == 1);
  }
  if (above.is_member != 0) {
    Refresh(parent);
  } else if (above.children == 0) {
    absent_.Erase(parent);
    FreePlace(parent);
  }
}

EvictionPolicy EvictionOrder::followed() const {
  if (policy_ != EvictionPolicy::kLearnt) return policy_;
  const bool leads =
      learning_->hazards.conclusions() >= kConclusionsToFollow && learning_->sample.learnt_leads();
  return leads ? policy_ : EvictionPolicy::kLru;
}

// LRU and FIFO have one weight. A learnt order that follows LRU still has the weights of hints.
WorthQueues::Ranked EvictionOrder::ranked() const {
  return followed() == EvictionPolicy::kLearnt ? WorthQueues::Ranked::kByWorth
                                               : WorthQueues::Ranked::kByWeight;
}

EvictionSummary EvictionOrder::Summary() const {
  EvictionSummary summary{.policy = policy_, .orders = 1, .refused = refused_};
  if (learning_ != nullptr) {
    summary.following_lru = followed() == EvictionPolicy::kLru ? 1 : 0;
    summary.score = learning_->sample.score();
  }
  return summary;
}

std::optional<uint32_t> EvictionOrder::FirstToLeave(uint32_t group) {
  const auto may_leave = [this](uint32_t number) { return IsCandidate(places_[number]); };
  const auto aside =
      group == WorthQueues::kAllGroups ? aside_.First(may_leave) : aside_.First(group, may_leave);
  if (aside.has_value()) return aside;
  const std::optional<WorthQueues::Choice> first = queues_.First(ranked(), clock_.now(), group);
  return first.has_value() ? std::optional(first->item) : std::nullopt;
}

std::optional<BlockKey> EvictionOrder::Victim(uint32_t group) {
  const std::optional<uint32_t> first = FirstToLeave(group);
  return first.has_value() ? std::optional(places_[*first].key) : std::nullopt;
}

std::optional<EvictionOrder::SetAside> EvictionOrder::SetNextAside(uint32_t group) {
  std::optional<WorthQueues::Choice> next = queues_.First(ranked(), clock_.now(), group);
  const auto bared = bared_.First(ranked(), clock_.now(), group);
  if (bared.has_value() && (!next.has_value() || bared->LeavesBefore(*next))) next = bared;
  if (!next.has_value()) return std::nullopt;
  const uint32_t number = next->item;
  TakeOut(number);
  Node& node = places_[number];
  node.is_aside = 1;
  aside_.Add(number, group, node.parent);
  if (node.parent != kNone) Refresh(node.parent);
  const bool again = node.was_aside != 0;
  node.was_aside = 1;
  return SetAside{.key = node.key, .again = again};
}

void EvictionOrder::Audit() const {
  absl::flat_hash_map<uint32_t, uint32_t> children;
  absl::flat_hash_set<Moment> moments;
  size_t members = 0;
  size_t held = 0;
  size_t candidates = 0;
  size_t queued = 0;
  size_t aside = 0;
  size_t absent = 0;
  const auto is_free = [](const Node& node) { return node.is_member == 0 && node.children == 0; };
  for (size_t number = 0; number < places_.size(); ++number) {
    const Node& node = places_[number];
    if (is_free(node)) continue;
    if (node.is_member == 0) {
      KVT_CHECK(node.is_held == 0 && node.parent == kNone && absent_.Find(node.key) == number);
      KVT_CHECK(!find_(node.key).has_value());
      ++absent;
      continue;
    }
    KVT_CHECK(find_(node.key) == static_cast<Place>(number));
    ++members;
    if (node.parent != kNone) ++children[node.parent];
    held += node.is_held;
    KVT_CHECK(node.last <= clock_.now() && moments.insert(node.last).second);
  }
  KVT_CHECK(absent == absent_.size() && members == size_ && held == held_);
  for (uint32_t number = 0; number < places_.size(); ++number) {
    const Node& node = places_[number];
    if (is_free(node)) continue;
    const auto of_it = children.find(number);
    KVT_CHECK(node.children == (of_it == children.end() ? 0 : of_it->second));
    absl::flat_hash_set<uint32_t> listed;
    VisitChildren(number, [&](uint32_t child) {
      KVT_CHECK(places_[child].parent == number && listed.insert(child).second);
      return true;
    });
    KVT_CHECK(listed.size() == node.children);
    candidates += IsCandidate(node) ? 1 : 0;
    const uint32_t aside_children = aside_.ChildrenOf(number);
    KVT_CHECK((node.is_queued != 0) == (node.is_member != 0 && node.is_held == 0 &&
                                        node.is_aside == 0 && node.children == aside_children));
    if (node.is_queued != 0) {
      ++queued;
      KVT_CHECK((node.is_bared != 0) == (node.children > 0));
      const WorthQueues& queues = node.is_bared != 0 ? bared_ : queues_;
      KVT_CHECK(queues.Contains(QueueFor(node), node.last, number));
    }
    if (node.is_aside != 0) {
      ++aside;
      KVT_CHECK(node.is_member != 0 && node.children == aside_children);
      KVT_CHECK(aside_.Contains(number, static_cast<uint32_t>(node.group)));
    }
  }
  for (const auto& [parent, child] : other_children_) KVT_CHECK(places_[child].parent == parent);
  KVT_CHECK(members == std::accumulate(members_.begin(), members_.end(), size_t{0}));
  KVT_CHECK(queued == queues_.size() + bared_.size() && aside == aside_.size());
  // No cycle of parents: then some member has no child.
  KVT_CHECK(size_ == 0 || held_ > 0 || candidates > 0);
  if (learning_ != nullptr) learning_->sample.Audit();
}

}  // namespace kvtier
