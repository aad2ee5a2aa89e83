#include "tests/tier_gpu/block_table_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace kvtier::testing {

namespace {

// The last worker is a copy lane: it holds slots, but has no sequences.
constexpr PoolWorker kLane{2};

}  // namespace

// Crashes are rarest, because each empties a good part of the pool.
const std::array<BlockTableModel::Operation, 21> BlockTableModel::kOperations = {{
    {"append", 300, &BlockTableModel::Append},
    {"begin", 150, &BlockTableModel::Begin},
    {"retire", 150, &BlockTableModel::Retire},
    {"fork", 60, &BlockTableModel::Fork},
    {"free", 80, &BlockTableModel::Free},
    {"create", 50, &BlockTableModel::Create},
    {"swap in", 50, &BlockTableModel::SwapIn},
    {"truncate", 50, &BlockTableModel::Truncate},
    {"cache", 30, &BlockTableModel::Cache},
    {"copy lane", 30, &BlockTableModel::Lane},
    {"uncache", 25, &BlockTableModel::Uncache},
    {"adopt", 20, &BlockTableModel::Adopt},
    {"priority", 20, &BlockTableModel::SetPriority},
    {"swap out", 15, &BlockTableModel::SwapOutSome},
    {"preempt", 15, &BlockTableModel::SwapOutVictims},
    {"grow", 15, &BlockTableModel::Grow},
    {"cut", 15, &BlockTableModel::Cut},
    {"stale name", 10, &BlockTableModel::UseStale},
    {"close", 5, &BlockTableModel::Close},
    {"reopen", 5, &BlockTableModel::Reopen},
    {"crash", 1, &BlockTableModel::Crash},
}};

BlockTableModel::Block::~Block() { model->Died(*this); }

size_t BlockTableModel::Run() {
  uint64_t all = 0;
  for (const Operation& operation : kOperations) all += operation.weight;
  uint64_t drawn = random_.Below(all);
  size_t at = 0;
  for (; drawn >= kOperations[at].weight; ++at) drawn -= kOperations[at].weight;
  const bool refused = (this->*kOperations[at].run)();
  ++(refused ? tallies_[at].refused : tallies_[at].done);
  Check();
  return at;
}

// --- The reference.

void BlockTableModel::Died(const Block& block) {
  owners_[block.slot.index] = nullptr;
  released_[block.slot.index] = block.released;
  stale_[died_++ % stale_.size()] = block.slot;
}

bool BlockTableModel::Drained(const Steps& released) const {
  for (size_t i = 0; i < kWorkers; ++i) {
    if (released[i] > retired_[i]) return false;
  }
  return true;
}

size_t BlockTableModel::UnusedSlots(size_t begin, size_t end) const {
  size_t unused = 0;
  for (size_t i = begin; i < end; ++i) {
    unused += owners_[i] == nullptr && Drained(released_[i]) ? 1 : 0;
  }
  return unused;
}

size_t BlockTableModel::LiveSlots() const {
  return kSlots - static_cast<size_t>(std::count(owners_.begin(), owners_.end(), nullptr));
}

BlockTableModel::BlockPtr BlockTableModel::Taken(uint32_t index) {
  auto block = std::make_shared<Block>(this);
  EXPECT_LT(index, open_);
  EXPECT_EQ(owners_[index], nullptr) << "slot " << index << " is another's";
  EXPECT_TRUE(Drained(released_[index])) << "slot " << index << " may still be read";
  block->slot = slots_.Ref(index);
  EXPECT_EQ(std::ranges::count(stale_, block->slot), 0) << "an old name of slot " << index;
  owners_[index] = block.get();
  return block;
}

void BlockTableModel::GiveUp(PoolWorker worker, BlockPtr* block) {
  (*block)->released[At(worker)] = begun_[At(worker)];
  block->reset();
}

bool BlockTableModel::InFlight(PoolWorker worker) const {
  return begun_[At(worker)] > retired_[At(worker)];
}

bool BlockTableModel::Writable(PoolWorker worker, const BlockPtr& block) const {
  Steps others = block->released;
  others[At(worker)] = 0;
  return block.use_count() == 1 && !block->sealed && Drained(others);
}

long BlockTableModel::AwayHolds(const Block* block) const {
  long holds = 0;
  for (const Sequence& sequence : sequences_) {
    if (!sequence.swapped_out) continue;
    for (const BlockPtr& held : sequence.blocks) holds += held.get() == block ? 1 : 0;
  }
  return holds;
}

bool BlockTableModel::IsAhead(const Sequence& a, const Sequence& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.started < b.started;
}

uint32_t BlockTableModel::TokensIn(const Sequence& sequence, size_t block) {
  return static_cast<uint32_t>(std::min<size_t>(kTokens, sequence.tokens.size() - block * kTokens));
}

std::span<const uint64_t> BlockTableModel::TokensOf(const Sequence& sequence, size_t block) {
  return std::span(sequence.tokens).subspan(block * kTokens, TokensIn(sequence, block));
}

BlockTableModel::Sequence* BlockTableModel::Any() {
  return sequences_.empty() ? nullptr : &sequences_[random_.Below(sequences_.size())];
}

// --- The operations: predict, do, compare, follow.

bool BlockTableModel::Create() {
  if (sequences_.size() >= kMaxSequences) return true;
  Sequence sequence{.worker = static_cast<PoolWorker>(random_.Below(kWorkers - 1)),
                    .priority = static_cast<int32_t>(random_.Below(4))};
  sequence.id = tables_.Create(sequence.worker, sequence.priority);
  sequence.started = ++started_;
  sequences_.push_back(std::move(sequence));
  return false;
}

bool BlockTableModel::Append() {
  Sequence* const sequence = Any();
  if (sequence == nullptr) return true;
  const auto tokens = static_cast<uint32_t>(1 + random_.Below(7));
  const size_t before = sequence->tokens.size();
  const bool copies = before % kTokens != 0 && !sequence->swapped_out &&
                      !Writable(sequence->worker, sequence->blocks.back());
  const size_t blocks = (before + tokens + kTokens - 1) / kTokens - sequence->blocks.size();
  const size_t free = FreeSlots();
  const absl::StatusOr<Appended> appended = tables_.Append(sequence->id, tokens);
  if (sequence->swapped_out || (blocks + copies <= free && copies && !InFlight(sequence->worker))) {
    EXPECT_TRUE(absl::IsFailedPrecondition(appended.status())) << appended.status();
    return true;
  }
  if (blocks + copies > free) {
    EXPECT_TRUE(absl::IsResourceExhausted(appended.status())) << appended.status();
    return true;
  }
  EXPECT_EQ(appended.status(), absl::OkStatus());
  EXPECT_EQ(appended->position, before);
  EXPECT_EQ(appended->copy.has_value(), copies);
  if (::testing::Test::HasFailure()) return false;
  const std::span<const uint32_t> slots = *tables_.slots(sequence->id);
  if (copies) {
    ++copies_;
    BlockPtr& last = sequence->blocks.back();
    EXPECT_EQ(appended->copy->from, last->slot.index);
    EXPECT_EQ(appended->copy->to, slots[sequence->blocks.size() - 1]);
    EXPECT_EQ(appended->copy->tokens, before % kTokens);
    std::copy_n(Memory(appended->copy->from), appended->copy->tokens, Memory(appended->copy->to));
    BlockPtr copy = Taken(appended->copy->to);
    GiveUp(sequence->worker, &last);
    last = std::move(copy);
  }
  for (size_t i = 0; i < blocks; ++i) {
    sequence->blocks.push_back(Taken(slots[sequence->blocks.size()]));
  }
  for (size_t at = before; at < before + tokens; ++at) {
    Memory(slots[at / kTokens])[at % kTokens] = next_token_;
    sequence->tokens.push_back(next_token_++);
  }
  return false;
}

bool BlockTableModel::Fork() {
  const Sequence* const parent = Any();
  if (parent == nullptr || sequences_.size() >= kMaxSequences) return true;
  const absl::StatusOr<SequenceId> id = tables_.Fork(parent->id);
  if (parent->swapped_out) {
    EXPECT_TRUE(absl::IsFailedPrecondition(id.status())) << id.status();
    return true;
  }
  EXPECT_EQ(id.status(), absl::OkStatus());
  Sequence child = *parent;
  child.id = *id;
  child.started = ++started_;
  sequences_.push_back(std::move(child));
  return false;
}

bool BlockTableModel::Truncate() {
  Sequence* const sequence = Any();
  if (sequence == nullptr) return true;
  const size_t tokens = random_.Below(sequence->tokens.size() + 3);
  const absl::Status truncated = tables_.Truncate(sequence->id, tokens);
  if (sequence->swapped_out) {
    EXPECT_TRUE(absl::IsFailedPrecondition(truncated)) << truncated;
    return true;
  }
  if (tokens > sequence->tokens.size()) {
    EXPECT_TRUE(absl::IsInvalidArgument(truncated)) << truncated;
    return true;
  }
  EXPECT_EQ(truncated, absl::OkStatus());
  sequence->tokens.resize(tokens);
  for (; sequence->blocks.size() * kTokens >= tokens + kTokens; sequence->blocks.pop_back()) {
    GiveUp(sequence->worker, &sequence->blocks.back());
  }
  return false;
}

bool BlockTableModel::Free() {
  Sequence* const sequence = Any();
  if (sequence == nullptr) return true;
  EXPECT_EQ(tables_.Free(sequence->id), absl::OkStatus());
  freed_ = sequence->id;
  for (BlockPtr& block : sequence->blocks) {
    if (block != nullptr) GiveUp(sequence->worker, &block);
  }
  std::swap(*sequence, sequences_.back());
  sequences_.pop_back();
  return false;
}

bool BlockTableModel::Cache() {
  const Sequence* const sequence = Any();
  if (sequence == nullptr || sequence->blocks.empty() || cached_.size() >= kMaxCached) return true;
  const auto at = static_cast<uint32_t>(random_.Below(sequence->blocks.size()));
  const absl::StatusOr<SlotRef> sealed = tables_.Seal(sequence->id, at);
  const BlockPtr& block = sequence->blocks[at];
  if (block == nullptr || TokensIn(*sequence, at) < kTokens) {
    EXPECT_TRUE(absl::IsFailedPrecondition(sealed.status())) << sealed.status();
    return true;
  }
  EXPECT_EQ(sealed.status(), absl::OkStatus());
  EXPECT_EQ(*sealed, block->slot);
  block->sealed = true;
  const std::span<const uint64_t> tokens = TokensOf(*sequence, at);
  block->tokens.assign(tokens.begin(), tokens.end());
  const bool kept = std::find(cached_.begin(), cached_.end(), block) != cached_.end();
  EXPECT_EQ(slots_.Keep(*sealed).code(),
            kept ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kOk);
  if (!kept) cached_.push_back(block);
  return kept;
}

bool BlockTableModel::Uncache() {
  if (cached_.empty()) return true;
  std::swap(cached_[random_.Below(cached_.size())], cached_.back());
  EXPECT_EQ(slots_.Drop(cached_.back()->slot), absl::OkStatus());
  cached_.pop_back();
  return false;
}

bool BlockTableModel::Adopt() {
  if (cached_.empty() || Create()) return true;
  Sequence* const sequence = &sequences_.back();
  std::vector<SlotRef> prefix;
  for (uint64_t left = 1 + random_.Below(4); left > 0; --left) {
    const BlockPtr& block = cached_[random_.Below(cached_.size())];
    prefix.push_back(block->slot);
    sequence->blocks.push_back(block);
    sequence->tokens.insert(sequence->tokens.end(), block->tokens.begin(), block->tokens.end());
  }
  EXPECT_EQ(tables_.Adopt(sequence->id, prefix), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(tables_.Adopt(sequence->id, prefix)));
  return false;
}

bool BlockTableModel::Begin() {
  const auto worker = static_cast<PoolWorker>(random_.Below(kWorkers));
  const uint64_t step = begun_[At(worker)] + random_.Below(3);
  const absl::Status begun = slots_.Begin(worker, step);
  if (step == begun_[At(worker)]) {
    EXPECT_TRUE(absl::IsInvalidArgument(begun)) << begun;
    return true;
  }
  EXPECT_EQ(begun, absl::OkStatus());
  begun_[At(worker)] = step;
  return false;
}

bool BlockTableModel::Retire() {
  const auto worker = static_cast<PoolWorker>(random_.Below(kWorkers));
  const uint64_t step = retired_[At(worker)] + random_.Below(4);
  const absl::Status retired = slots_.Retire(worker, step);
  if (step > begun_[At(worker)]) {
    EXPECT_TRUE(absl::IsInvalidArgument(retired)) << retired;
    return true;
  }
  EXPECT_EQ(retired, absl::OkStatus());
  retired_[At(worker)] = step;
  return false;
}

// Makes the copy lane hold a random block of a sequence, sealed or not, or release one that it
// holds.
bool BlockTableModel::Lane() {
  if (lane_.size() >= kMaxLane || (!lane_.empty() && random_.Below(2) == 0)) {
    std::swap(lane_[random_.Below(lane_.size())], lane_.back());
    EXPECT_EQ(slots_.Release(kLane, lane_.back()->slot), absl::OkStatus());
    GiveUp(kLane, &lane_.back());
    lane_.pop_back();
    return false;
  }
  const Sequence* const sequence = Any();
  if (sequence == nullptr || sequence->blocks.empty()) return true;
  const BlockPtr& block = sequence->blocks[random_.Below(sequence->blocks.size())];
  if (block == nullptr) return true;
  EXPECT_EQ(slots_.Hold(kLane, block->slot), absl::OkStatus());
  lane_.push_back(block);
  return false;
}

// Uses names of slots and sequences that are gone. Every call that takes one refuses it.
bool BlockTableModel::UseStale() {
  const SlotRef stale = stale_[random_.Below(stale_.size())];
  EXPECT_TRUE(absl::IsAborted(slots_.Hold(kLane, stale)));
  EXPECT_TRUE(absl::IsAborted(slots_.Release(kLane, stale)));
  EXPECT_TRUE(absl::IsAborted(slots_.Keep(stale)));
  EXPECT_TRUE(absl::IsNotFound(tables_.Append(freed_, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(tables_.Free(freed_)));
  if (sequences_.size() < kMaxSequences) {
    const SequenceId empty = tables_.Create(PoolWorker{0}, 0);
    ++started_;
    EXPECT_TRUE(absl::IsAborted(tables_.Adopt(empty, {&stale, 1})));
    EXPECT_EQ(tables_.Free(empty), absl::OkStatus());
  }
  return true;
}

bool BlockTableModel::Crash() {
  CrashOf(static_cast<PoolWorker>(random_.Below(kWorkers)));
  return false;
}

void BlockTableModel::CrashOf(PoolWorker worker) {
  const size_t before = sequences_.size();
  std::erase_if(sequences_, [worker](const Sequence& one) { return one.worker == worker; });
  if (worker == kLane) lane_.clear();
  begun_[At(worker)] = 0;
  retired_[At(worker)] = 0;
  for (uint32_t i = 0; i < kSlots; ++i) {
    (owners_[i] == nullptr ? released_[i] : owners_[i]->released)[At(worker)] = 0;
  }
  EXPECT_EQ(tables_.Crash(worker), before - sequences_.size());
}

// --- The comparisons.

// Compares a sequence's tokens with the reference's. Reads them through the sequence's table, or
// where they were saved when its blocks were swapped out.
void BlockTableModel::CheckSequence(const Sequence& sequence) {
  const std::span<const uint32_t> slots = *tables_.slots(sequence.id);
  bool same = slots.size() == sequence.blocks.size();
  for (uint32_t at = 0; same && at < slots.size(); ++at) {
    const BlockPtr& block = sequence.blocks[at];
    same = slots[at] == (block == nullptr ? kNoSlot : block->slot.index);
    if (!same) break;
    const std::span<const uint64_t> tokens = TokensOf(sequence, at);
    const uint64_t* const bytes =
        block == nullptr ? sequence.saved.at(at).data() : Memory(slots[at]);
    same = std::equal(tokens.begin(), tokens.end(), bytes);
  }
  EXPECT_TRUE(same) << "sequence " << sequence.started << " reads other than it wrote";
}

void BlockTableModel::Check() {
  for (const Sequence& sequence : sequences_) CheckSequence(sequence);
  const size_t free = FreeSlots();
  EXPECT_EQ(tables_.sequences(), sequences_.size());
  EXPECT_EQ(slots_.free_slots(), free);
  const size_t unused = UnusedSlots(0, pool_);
  EXPECT_EQ(slots_.draining_slots(), pool_ - LiveSlots() - unused);
  EXPECT_EQ(slots_.used_slots(), pool_ - unused);
  EXPECT_EQ(slots_.closed_in_use(), pool_ - open_ - (unused - free));
}

void BlockTableModel::Audit() {
  tables_.Audit();
  std::array<long, kSlots> holds{};
  Fragmentation expected;
  std::array<uint32_t, kSlots> used{};
  const auto count = [&](const BlockPtr& block) {
    if (block != nullptr) holds[block->slot.index] = block.use_count();
  };
  for (const Sequence& sequence : sequences_) {
    for (uint32_t at = 0; at < sequence.blocks.size(); ++at) {
      const BlockPtr& block = sequence.blocks[at];
      count(block);
      if (block == nullptr) continue;
      uint32_t& tokens = used[block->slot.index];
      tokens = std::max(tokens, TokensIn(sequence, at));
    }
    const SequenceFacts facts = *tables_.Facts(sequence.id);
    EXPECT_EQ(facts.tokens, sequence.tokens.size());
    EXPECT_EQ(facts.blocks_out, sequence.saved.size());
    EXPECT_EQ(facts.swapped_out, sequence.swapped_out);
    EXPECT_EQ(facts.started, sequence.started);
  }
  for (const BlockPtr& block : cached_) count(block);
  for (const BlockPtr& block : lane_) count(block);
  for (uint32_t slot = 0; slot < pool_; ++slot) {
    EXPECT_EQ(slots_.holds(slot), holds[slot]) << "slot " << slot;
    if (used[slot] == 0) continue;
    expected.room += kTokens;
    expected.unused += kTokens - used[slot];
  }
  EXPECT_EQ(tables_.Measure().room, expected.room);
  EXPECT_EQ(tables_.Measure().unused, expected.unused);
}

void BlockTableModel::End() {
  while (!sequences_.empty()) Free();
  while (!cached_.empty()) Uncache();
  for (uint32_t worker = 0; worker < kWorkers; ++worker) CrashOf(static_cast<PoolWorker>(worker));
  Reopen();
  Check();
  Audit();
  EXPECT_EQ(slots_.free_slots(), pool_);
}

}  // namespace kvtier::testing
