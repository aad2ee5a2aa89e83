#include "tier_gpu/tables/block_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

namespace {

// Bits of an id below its creation number that hold the sequence's place: 16 million sequences at a
// time, 10^12 in all.
constexpr int kPlaceBits = 24;

uint64_t NumberOf(SequenceId id) { return static_cast<uint64_t>(id) >> kPlaceBits; }
uint64_t PlaceOf(SequenceId id) {
  return static_cast<uint64_t>(id) & ((uint64_t{1} << kPlaceBits) - 1);
}

absl::Status Unknown(SequenceId id) {
  return absl::NotFoundError(absl::StrCat("there is no sequence ", NumberOf(id), "; it was freed"));
}

absl::Status SwappedOutError(SequenceId id) {
  return absl::FailedPreconditionError(
      absl::StrCat("sequence ", NumberOf(id), " is swapped out; swap it in first"));
}

}  // namespace

BlockTable::BlockTable(SlotTable* slots, uint32_t block_tokens)
    : slots_(slots), block_tokens_(block_tokens), swapped_out_holds_(slots->slots(), 0) {
  KVT_CHECK(block_tokens > 0);
}

BlockTable::Sequence* BlockTable::Find(SequenceId id) {
  return const_cast<Sequence*>(static_cast<const BlockTable*>(this)->Find(id));
}

const BlockTable::Sequence* BlockTable::Find(SequenceId id) const {
  const uint64_t place = PlaceOf(id);
  if (place >= sequences_.size()) return nullptr;
  const Sequence& sequence = sequences_[place];
  const bool lives = sequence.facts.started != 0;
  return lives && sequence.facts.started == NumberOf(id) ? &sequence : nullptr;
}

SequenceId BlockTable::IdOf(size_t place) const {
  return SequenceId{sequences_[place].facts.started << kPlaceBits | place};
}

uint32_t BlockTable::TokensIn(const Sequence& sequence, size_t block) const {
  const uint64_t before = block * uint64_t{block_tokens_};
  return static_cast<uint32_t>(std::min<uint64_t>(block_tokens_, sequence.facts.tokens - before));
}

absl::Status BlockTable::CheckInFlight(PoolWorker worker) const {
  if (slots_->begun(worker) > slots_->retired(worker)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("worker ", static_cast<uint32_t>(worker),
                                                    " has no step after ", slots_->retired(worker),
                                                    " in flight to do the copies; begin one"));
}

void BlockTable::Release(const Sequence& sequence, uint32_t slot) {
  KVT_CHECK(slots_->Release(sequence.facts.worker, slots_->Ref(slot)).ok());
}

SequenceId BlockTable::Create(PoolWorker worker, int32_t priority) {
  KVT_CHECK(static_cast<size_t>(worker) < slots_->workers());
  size_t place = sequences_.size();
  if (free_.empty()) {
    KVT_CHECK(place >> kPlaceBits == 0);
    sequences_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  sequences_[place].facts = {.worker = worker, .priority = priority, .started = ++started_};
  return IdOf(place);
}

absl::Status BlockTable::SetPriority(SequenceId id, int32_t priority) {
  Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  sequence->facts.priority = priority;
  return absl::OkStatus();
}

absl::Status BlockTable::Adopt(SequenceId id, std::span<const SlotRef> blocks) {
  Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  if (sequence->facts.swapped_out) return SwappedOutError(id);
  if (sequence->facts.tokens > 0) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", NumberOf(id), " has ",
                                                      sequence->facts.tokens,
                                                      " tokens; must have none to adopt blocks"));
  }
  for (const SlotRef& slot : blocks) {
    KVT_RETURN_IF_ERROR(slots_->Check(slot));
    if (!slots_->sealed(slot.index)) {
      return absl::FailedPreconditionError(
          absl::StrCat("slot ", slot.index, " is not sealed: its bytes may still change"));
    }
  }
  for (const SlotRef& slot : blocks) {
    KVT_CHECK(slots_->Hold(sequence->facts.worker, slot).ok());
    sequence->slots.push_back(slot.index);
  }
  sequence->facts.tokens = blocks.size() * uint64_t{block_tokens_};
  return absl::OkStatus();
}

absl::StatusOr<Appended> BlockTable::Append(SequenceId id, uint32_t tokens) {
  Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  SequenceFacts& facts = sequence->facts;
  if (facts.swapped_out) return SwappedOutError(id);
  if (tokens == 0) return absl::InvalidArgumentError("tokens to append is 0; must be positive");

  const uint64_t room = sequence->slots.size() * uint64_t{block_tokens_};
  bool copies = room > facts.tokens && !slots_->writable(facts.worker, sequence->slots.back());
  const uint64_t end = facts.tokens + tokens;
  const uint64_t blocks = end <= room ? 0 : (end - room + block_tokens_ - 1) / block_tokens_;
  const uint64_t needed = blocks + (copies ? 1 : 0);
  if (needed > slots_->free_slots()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sequence ", facts.started, " needs ", needed, " slots for ", tokens,
                     " tokens; ", slots_->free_slots(), " of ", slots_->slots(), " are free, ",
                     slots_->draining_slots(), " wait for compute to retire"));
  }
  if (copies) KVT_RETURN_IF_ERROR(CheckInFlight(facts.worker));
  // Fills in the returned object itself: copying an Appended into it would double the call's time.
  absl::StatusOr<Appended> appended(Appended{.position = facts.tokens});
  if (copies) {
    uint32_t& last = sequence->slots.back();
    const uint32_t to = slots_->Allocate(facts.worker)->index;
    const uint32_t tokens_in = TokensIn(*sequence, sequence->slots.size() - 1);
    appended->copy = BlockCopy{.from = last, .to = to, .tokens = tokens_in};
    Release(*sequence, last);
    last = to;
  }
  for (uint64_t i = 0; i < blocks; ++i) {
    sequence->slots.push_back(slots_->Allocate(facts.worker)->index);
  }
  facts.tokens = end;
  return appended;
}

absl::StatusOr<SequenceId> BlockTable::Fork(SequenceId id) {
  const Sequence* parent = Find(id);
  if (parent == nullptr) return Unknown(id);
  if (parent->facts.swapped_out) return SwappedOutError(id);
  const SequenceId child_id = Create(parent->facts.worker, parent->facts.priority);
  parent = Find(id);  // Creating the fork moves the sequences.
  Sequence* const child = Find(child_id);
  for (const uint32_t slot : parent->slots) {
    KVT_CHECK(slots_->Hold(parent->facts.worker, slots_->Ref(slot)).ok());
  }
  child->slots = parent->slots;
  child->facts.tokens = parent->facts.tokens;
  return child_id;
}

absl::Status BlockTable::Truncate(SequenceId id, uint64_t tokens) {
  Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  if (sequence->facts.swapped_out) return SwappedOutError(id);
  if (tokens > sequence->facts.tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", NumberOf(id), " has ", sequence->facts.tokens,
                     " tokens; must keep at most these, not ", tokens));
  }
  const uint64_t blocks = (tokens + block_tokens_ - 1) / block_tokens_;
  for (; sequence->slots.size() > blocks; sequence->slots.pop_back()) {
    Release(*sequence, sequence->slots.back());
  }
  sequence->facts.tokens = tokens;
  return absl::OkStatus();
}

void BlockTable::Forget(size_t place) {
  sequences_[place].slots.clear();
  sequences_[place].facts = {};
  free_.push_back(static_cast<uint32_t>(place));
}

absl::Status BlockTable::Free(SequenceId id) {
  const Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  // Releases slots from the end: free slots are a stack, so the next sequence gets them in order.
  for (auto slot = sequence->slots.rbegin(); slot != sequence->slots.rend(); ++slot) {
    if (*slot == kNoSlot) continue;
    if (sequence->facts.swapped_out) --swapped_out_holds_[*slot];
    Release(*sequence, *slot);
  }
  Forget(static_cast<size_t>(sequence - sequences_.data()));
  return absl::OkStatus();
}

absl::StatusOr<SlotRef> BlockTable::Seal(SequenceId id, uint32_t block) {
  const Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  if (block >= sequence->slots.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", NumberOf(id), " has ", sequence->slots.size(),
                     " blocks; block must be below that, not ", block));
  }
  if (sequence->slots[block] == kNoSlot) return SwappedOutError(id);
  if (const uint32_t tokens = TokensIn(*sequence, block); tokens < block_tokens_) {
    return absl::FailedPreconditionError(
        absl::StrCat("block ", block, " of sequence ", NumberOf(id), " has ", tokens, " of ",
                     block_tokens_, " tokens; must be full to be sealed"));
  }
  const SlotRef slot = slots_->Ref(sequence->slots[block]);
  KVT_RETURN_IF_ERROR(slots_->Seal(slot));
  return slot;
}

void BlockTable::SwapOutUnshared(SequenceId id, Sequence* sequence, std::vector<SwapCopy>* copies) {
  for (uint32_t block = 0; block < sequence->slots.size(); ++block) {
    uint32_t& slot = sequence->slots[block];
    if (slot == kNoSlot || slots_->holds(slot) > swapped_out_holds_[slot]) continue;
    copies->push_back(
        {.sequence = id, .block = block, .slot = slot, .tokens = TokensIn(*sequence, block)});
    --swapped_out_holds_[slot];
    Release(*sequence, slot);
    slot = kNoSlot;
    ++sequence->facts.blocks_out;
  }
}

absl::StatusOr<std::vector<SwapCopy>> BlockTable::SwapOut(std::span<const SequenceId> ids) {
  for (const SequenceId id : ids) {
    const Sequence* const sequence = Find(id);
    if (sequence == nullptr) return Unknown(id);
    KVT_RETURN_IF_ERROR(CheckInFlight(sequence->facts.worker));
  }
  // Marks all sequences first, so that blocks that only these sequences share leave too.
  size_t blocks = 0;
  for (const SequenceId id : ids) {
    Sequence* const sequence = Find(id);
    blocks += sequence->slots.size();
    if (sequence->facts.swapped_out) continue;
    sequence->facts.swapped_out = true;
    for (const uint32_t slot : sequence->slots) ++swapped_out_holds_[slot];
  }
  std::vector<SwapCopy> copies;
  copies.reserve(blocks);
  for (const SequenceId id : ids) SwapOutUnshared(id, Find(id), &copies);
  return copies;
}

absl::StatusOr<std::vector<SwapCopy>> BlockTable::PlanSwapOut(
    std::span<const SequenceId> ids) const {
  std::vector<SequenceId> leaving;  // Sequences that leave, each once, in their order.
  // Number of holds, by slot, of the sequences that are not swapped out yet.
  std::vector<uint32_t> leaving_holds(slots_->slots(), 0);
  for (const SequenceId id : ids) {
    const Sequence* const sequence = Find(id);
    if (sequence == nullptr) return Unknown(id);
    if (std::ranges::find(leaving, id) != leaving.end()) continue;
    leaving.push_back(id);
    if (sequence->facts.swapped_out) continue;
    for (const uint32_t slot : sequence->slots) ++leaving_holds[slot];
  }
  std::vector<SwapCopy> copies;
  for (const SequenceId id : leaving) {
    const Sequence& sequence = *Find(id);
    for (uint32_t block = 0; block < sequence.slots.size(); ++block) {
      const uint32_t slot = sequence.slots[block];
      if (slot == kNoSlot || slots_->holds(slot) > swapped_out_holds_[slot] + leaving_holds[slot])
        continue;
      copies.push_back(
          {.sequence = id, .block = block, .slot = slot, .tokens = TokensIn(sequence, block)});
    }
  }
  return copies;
}

absl::StatusOr<std::vector<SwapCopy>> BlockTable::SwapIn(SequenceId id) {
  Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  SequenceFacts& facts = sequence->facts;
  if (!facts.swapped_out) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", facts.started, " is not swapped out"));
  }
  if (facts.blocks_out > slots_->free_slots()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "sequence ", facts.started, " needs ", facts.blocks_out, " slots to come back; ",
        slots_->free_slots(), " of ", slots_->slots(), " are free"));
  }
  std::vector<SwapCopy> copies;
  copies.reserve(facts.blocks_out);
  for (uint32_t block = 0; block < sequence->slots.size(); ++block) {
    uint32_t& slot = sequence->slots[block];
    if (slot != kNoSlot) {
      --swapped_out_holds_[slot];
      continue;
    }
    slot = slots_->Allocate(facts.worker)->index;
    copies.push_back(
        {.sequence = id, .block = block, .slot = slot, .tokens = TokensIn(*sequence, block)});
  }
  facts.blocks_out = 0;
  facts.swapped_out = false;
  return copies;
}

size_t BlockTable::Crash(PoolWorker worker) {
  size_t gone = 0;
  for (size_t place = 0; place < sequences_.size(); ++place) {
    const Sequence& sequence = sequences_[place];
    if (sequence.facts.started == 0 || sequence.facts.worker != worker) continue;
    for (const uint32_t slot : sequence.slots) {
      if (slot != kNoSlot && sequence.facts.swapped_out) --swapped_out_holds_[slot];
    }
    Forget(place);
    ++gone;
  }
  slots_->Crash(worker);
  return gone;
}

absl::StatusOr<std::span<const uint32_t>> BlockTable::slots(SequenceId id) const {
  const Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  return sequence->slots;
}

absl::StatusOr<SequenceFacts> BlockTable::Facts(SequenceId id) const {
  const Sequence* const sequence = Find(id);
  if (sequence == nullptr) return Unknown(id);
  return sequence->facts;
}

std::vector<SequenceId> BlockTable::Sequences() const {
  std::vector<SequenceId> ids;
  ids.reserve(sequences());
  for (size_t place = 0; place < sequences_.size(); ++place) {
    if (sequences_[place].facts.started != 0) ids.push_back(IdOf(place));
  }
  return ids;
}

Fragmentation BlockTable::Measure() const {
  // Number of tokens by slot; of a slot that forks share, the largest number in any fork.
  std::vector<uint32_t> tokens(slots_->slots(), 0);
  for (const Sequence& sequence : sequences_) {
    for (size_t block = 0; block < sequence.slots.size(); ++block) {
      const uint32_t slot = sequence.slots[block];
      if (slot != kNoSlot) tokens[slot] = std::max(tokens[slot], TokensIn(sequence, block));
    }
  }
  Fragmentation measured;
  for (const uint32_t used : tokens) {
    if (used == 0) continue;
    measured.room += block_tokens_;
    measured.unused += block_tokens_ - used;
  }
  return measured;
}

void BlockTable::Audit() const {
  slots_->Audit();
  std::vector<uint32_t> swapped_out(swapped_out_holds_.size(), 0);
  std::vector<std::vector<uint32_t>> holds(slots_->workers(), swapped_out);
  size_t lives = 0;
  for (const Sequence& sequence : sequences_) {
    const SequenceFacts& facts = sequence.facts;
    if (facts.started == 0) {
      KVT_CHECK(sequence.slots.empty());
      continue;
    }
    ++lives;
    KVT_CHECK(sequence.slots.size() == (facts.tokens + block_tokens_ - 1) / block_tokens_);
    uint32_t out = 0;
    for (const uint32_t slot : sequence.slots) {
      if (slot == kNoSlot) {
        ++out;
        continue;
      }
      KVT_CHECK(slot < slots_->slots());
      ++holds[static_cast<size_t>(facts.worker)][slot];
      swapped_out[slot] += facts.swapped_out ? 1 : 0;
    }
    KVT_CHECK(out == facts.blocks_out && (out == 0 || facts.swapped_out));
  }
  KVT_CHECK(lives == sequences());
  KVT_CHECK(swapped_out == swapped_out_holds_);
  for (uint32_t worker = 0; worker < slots_->workers(); ++worker) {
    for (uint32_t slot = 0; slot < slots_->slots(); ++slot) {
      KVT_CHECK(slots_->holds(static_cast<PoolWorker>(worker), slot) >= holds[worker][slot]);
    }
  }
}

}  // namespace kvtier
