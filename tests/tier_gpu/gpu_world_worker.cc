#include "tests/tier_gpu/gpu_world_worker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"
#include "core/event.h"
#include "tier_gpu/tables/preemption.h"

namespace kvtier {
namespace {

constexpr uint64_t kStepsAhead = 3;  // Number of steps that are submitted and have not ended.
constexpr size_t kMaxSequences = 4;
// Indices of the worker's own words.
constexpr size_t kComputed = WorldSteps::kFreeWords;
constexpr size_t kSwapped = kComputed + 1;
constexpr absl::Duration kPause = absl::Microseconds(3);

}  // namespace

GpuWorld::Worker::Worker(GpuWorld* world, const std::string& name)
    : world_(world),
      device_(std::make_unique<testing::FaultyDevice>(
          &world->executor_,
          EmulatedDevice::Options{
              .seed = world->random_(), .checker = &world->checker_, .process = name})) {
  const DeviceRegion& pool = *world->pool_->region();
  std::vector<int> handles;
  for (size_t i = 0; i < pool.handles(); ++i) handles.push_back(pool.descriptor(i));
  region_ = *device_->ImportRegion(pool.shape(), handles, device_->uuid());
  end_chance_ = world->Chance(0.5) ? 0.2 : 0.03;
  KVT_CHECK(device_->Pin(world->host_).ok());
  number_ = *world->words_->Attach();
  steps_ = std::make_unique<WorldSteps>(device_.get(), world->words_->page(number_));
}

GpuWorld::Worker::~Worker() = default;

// Control messages order the host threads of both sides.
template <typename What>
auto GpuWorld::Worker::Ask(What what) {
  SignalWord* const request = world_->requests_->word(2 * static_cast<size_t>(number_));
  SignalWord* const answer = world_->requests_->word(2 * static_cast<size_t>(number_) + 1);
  device_->Raise(request, request->load() + 1);
  KVT_CHECK(world_->device_.Reached(*request, 1));
  world_->Observe();
  auto result = what();
  world_->device_.Raise(answer, answer->load() + 1);
  KVT_CHECK(device_->Reached(*answer, 1));
  return result;
}

void GpuWorld::Worker::Poll() {
  std::array<Completion, 16> ended;
  while (const size_t count = device_->Poll(ended)) {
    for (const Completion& one : std::span(ended).first(count)) {
      if (one.ticket.lane != Lane::kOffload) continue;
      const auto found = swapping_.find(one.ticket.sequence);
      if (found == swapping_.end()) continue;
      for (const SharedHostBlock& block : found->second) {
        block->filled = true;
        device_->NoteHostAccess(AccessChecker::Access::kRead, world_->BytesOf(*block));
        world_->CheckTokens(world_->BytesOf(*block), block->tokens);
      }
      // If the sequence has ended, this gives the memory back to the agent.
      Ask([&] { return swapping_.erase(found); });
    }
  }
  world_->words_->Observe();
}

Task<void> GpuWorld::Worker::Live(int steps) {
  const bool dies = world_->Chance(0.2);
  const int last = dies ? static_cast<int>(world_->Below(steps)) : steps;
  for (int step = 0; step < last; ++step) {
    Step();
    for (Poll(); steps_->begun() - steps_->retired() >= kStepsAhead; Poll()) {
      co_await SleepUntil(&world_->executor_, world_->executor_.Now() + kPause);
    }
  }
  if (!dies) {
    while (!sequences_.empty()) End();
    for (Poll(); steps_->retired() < steps_->begun(); Poll()) {
      co_await SleepUntil(&world_->executor_, world_->executor_.Now() + kPause);
    }
  }
  Die();
}

void GpuWorld::Worker::Die() {
  if (!sequences_.empty()) ++world_->counts_.crashes;
  SignalWord* const gone = world_->requests_->word(0);
  device_->Kill(gone);
  KVT_CHECK(world_->device_.Reached(*gone, 1));
  region_.reset();
  device_.reset();
  world_->tables_->Crash(number_);
  world_->words_->Detach(number_);
  sequences_.clear();
  swaps_.clear();
  swapping_.clear();
}

void GpuWorld::Worker::Step() {
  ++world_->counts_.steps;
  steps_->Begin();
  if (sequences_.size() < kMaxSequences && world_->Chance(0.3)) Begin();
  Work work;
  for (Sequence& sequence : sequences_) {
    if (sequence.swapped_out) SwapIn(&sequence);
    if (!sequence.swapped_out && world_->Chance(0.8)) Grow(&sequence, &work);
  }
  for (const Sequence& sequence : sequences_) {
    if (!sequence.swapped_out) AddReads(sequence, &work);
  }
  Launch(std::move(work));
  SubmitSwaps();
  if (!sequences_.empty() && sequences_.size() < kMaxSequences && world_->Chance(0.2)) {
    Fork(sequences_[world_->Below(sequences_.size())]);
  }
  if (!sequences_.empty() && world_->Chance(end_chance_)) {
    std::swap(sequences_[world_->Below(sequences_.size())], sequences_.back());
    if (!sequences_.back().swapped_out) End();
  }
  KVT_CHECK(steps_->End().ok());
}

GpuWorld::Worker::Sequence* GpuWorld::Worker::Find(SequenceId id) {
  const auto found = std::ranges::find(sequences_, id, &Sequence::id);
  return found == sequences_.end() ? nullptr : &*found;
}

GpuWorld::Tokens GpuWorld::Worker::TokensOf(const Sequence& sequence, size_t block) const {
  const auto begin = sequence.tokens.begin() + static_cast<ptrdiff_t>(block * kBlockTokens);
  return {begin, begin + std::min<ptrdiff_t>(kBlockTokens, sequence.tokens.end() - begin)};
}

void GpuWorld::Worker::Grow(Sequence* sequence, Work* work) {
  const auto tokens = static_cast<uint32_t>(1 + world_->Below(3));
  const absl::StatusOr<Appended> appended =
      Ask([&] { return world_->tables_->Append(sequence->id, tokens); });
  if (!appended.ok()) {
    KVT_CHECK(absl::IsResourceExhausted(appended.status()));
    ++world_->counts_.declined;
    return MakeRoom(*sequence);
  }
  if (appended->copy) {
    ++world_->counts_.copies_on_write;
    const uint64_t bytes = appended->copy->tokens * kTokenBytes;
    work->copies.push_back(
        {slot(appended->copy->from).first(bytes), slot(appended->copy->to).first(bytes)});
  }
  const std::span<const uint32_t> slots = *world_->tables_->slots(sequence->id);
  for (uint64_t at = appended->position; at < appended->position + tokens; ++at) {
    const auto value = static_cast<uint32_t>(world_->random_());
    sequence->tokens.push_back(value);
    work->writes.push_back(
        {slot(slots[at / kBlockTokens]).subspan(at % kBlockTokens * kTokenBytes, kTokenBytes),
         value});
  }
}

void GpuWorld::Worker::AddReads(const Sequence& sequence, Work* work) {
  const std::span<const uint32_t> slots = *world_->tables_->slots(sequence.id);
  for (size_t block = 0; block < slots.size(); ++block) {
    work->reads.push_back({slot(slots[block]), TokensOf(sequence, block)});
  }
}

void GpuWorld::Worker::Launch(Work work) {
  KVT_CHECK(steps_->AwaitOnboards().ok());
  testing::EmulatedKernel kernel{
      .run = absl::Microseconds(static_cast<int64_t>(1 + world_->Below(40)))};
  for (const Work::Copy& copy : work.copies) {
    kernel.reads.push_back(copy.from);
    kernel.writes.push_back(copy.to);
  }
  for (const Work::Write& write : work.writes) kernel.writes.push_back(write.token);
  for (const Work::Read& read : work.reads) kernel.reads.push_back(read.block);
  kernel.body = [world = world_, work = std::move(work)] {
    for (const Work::Copy& copy : work.copies) {
      std::memcpy(copy.to.data(), copy.from.data(), copy.from.size());
    }
    for (const Work::Write& write : work.writes) {
      for (size_t at = 0; at < write.token.size(); at += sizeof(write.value)) {
        std::memcpy(write.token.data() + at, &write.value, sizeof(write.value));
      }
    }
    for (const Work::Read& read : work.reads) world->CheckTokens(read.block, read.tokens);
  };
  KVT_CHECK(device_->Launch(std::move(kernel)).ok());
}

void GpuWorld::Worker::Begin() {
  Sequence sequence;
  Ask([&] {
    sequence.id = world_->tables_->Create(number_, static_cast<int32_t>(world_->Below(3)));
    std::vector<SlotRef> slots;
    for (size_t i = world_->Below(4); i > 0 && !world_->cache_.empty(); --i) {
      const SharedHostBlock cached = world_->cache_[world_->Below(world_->cache_.size())];
      const absl::StatusOr<SlotRef> slot = world_->pool_->table().Allocate(kPoolAgent);
      if (!slot.ok()) break;
      // Sequences that share the slot read it only after the word with which the copy ends.
      KVT_CHECK(world_->pool_->table().Seal(*slot).ok());
      slots.push_back(*slot);
      sequence.tokens.insert(sequence.tokens.end(), cached->tokens.begin(), cached->tokens.end());
      ++world_->counts_.onboards;
      world_->scope_.Spawn(world_->CopyIn(*slot, cached, steps_->NextOnboard()));
    }
    return world_->tables_->Adopt(sequence.id, slots);
  }).IgnoreError();
  sequences_.push_back(std::move(sequence));
}

void GpuWorld::Worker::Fork(const Sequence& sequence) {
  if (sequence.swapped_out) return;
  ++world_->counts_.forks;
  Sequence copy{.id = *Ask([&] { return world_->tables_->Fork(sequence.id); }),
                .tokens = sequence.tokens};
  sequences_.push_back(std::move(copy));
}

void GpuWorld::Worker::End() {
  const Sequence ended = std::move(sequences_.back());
  sequences_.pop_back();
  Ask([&] {
    const size_t full = ended.swapped_out ? 0 : ended.tokens.size() / kBlockTokens;
    for (uint32_t block = 0; block < full; ++block) {
      SharedHostBlock to = world_->TakeHostBlock();
      if (to == nullptr) break;
      ++world_->counts_.offloads;
      to->tokens = TokensOf(ended, block);
      const SlotRef slot = *world_->tables_->Seal(ended.id, block);
      KVT_CHECK(world_->pool_->table().Hold(kPoolAgent, slot).ok());
      world_->scope_.Spawn(world_->Offload(slot, std::move(to), number_, steps_->begun()));
    }
    return world_->tables_->Free(ended.id);
  }).IgnoreError();
}

void GpuWorld::Worker::MakeRoom(const Sequence& beneficiary) {
  const auto victims = PickVictims(*world_->tables_, beneficiary.id, 1);
  const auto is_mine = [this](SequenceId id) { return Find(id) != nullptr; };
  if (victims.ok() && std::ranges::all_of(*victims, is_mine)) {
    SwapOut(*victims);
  } else if (world_->Chance(0.3)) {
    SwapOut({beneficiary.id});  // The sequence waits until there is room.
  }
}

void GpuWorld::Worker::SwapOut(const std::vector<SequenceId>& victims) {
  Ask([&] {
    const auto copies = world_->tables_->SwapOut(victims);
    KVT_CHECK(copies.ok());
    for (const SequenceId id : victims) Find(id)->swapped_out = true;
    for (const SwapCopy& copy : *copies) {
      Sequence* const sequence = Find(copy.sequence);
      SharedHostBlock to = world_->TakeHostBlock();
      KVT_CHECK(to != nullptr);
      ++world_->counts_.swaps_out;
      to->tokens = TokensOf(*sequence, copy.block);
      sequence->swapped[copy.block] = to;
      swaps_.emplace_back(copy.slot, std::move(to));
    }
    return true;
  });
}

void GpuWorld::Worker::SubmitSwaps() {
  if (swaps_.empty()) return;
  SignalWord* const computed = steps_->word(kComputed);
  SignalWord* const swapped = steps_->word(kSwapped);
  std::vector<CopySegment> segments;
  std::vector<SharedHostBlock> blocks;
  for (const auto& [slot, to] : swaps_) {
    segments.push_back({world_->pool_->OffsetOf(slot), world_->BytesOf(*to).data(), kBlockBytes});
    blocks.push_back(to);
  }
  swaps_.clear();
  const uint64_t step = steps_->begun();
  KVT_CHECK(device_->Signal(Lane::kCompute, computed, step).ok());
  KVT_CHECK(device_->Await(Lane::kOffload, computed, step).ok());
  const absl::StatusOr<Ticket> copies = device_->Submit(
      {.direction = CopyDirection::kDeviceToHost, .region = region_.get(), .segments = segments});
  KVT_CHECK(copies.ok());
  KVT_CHECK(device_->Signal(Lane::kOffload, swapped, step).ok());
  KVT_CHECK(device_->Await(Lane::kCompute, swapped, step).ok());
  swapping_[copies->sequence] = std::move(blocks);
}

void GpuWorld::Worker::SwapIn(Sequence* sequence) {
  const bool filled = std::ranges::all_of(sequence->swapped,
                                          [](const auto& block) { return block.second->filled; });
  if (!filled || PickSwapIn(*world_->tables_) != sequence->id) return;
  Ask([&] {
    const auto copies = world_->tables_->SwapIn(sequence->id);
    if (!copies.ok()) return false;
    for (const SwapCopy& copy : *copies) {
      ++world_->counts_.swaps_in;
      const SlotRef slot = world_->pool_->table().Ref(copy.slot);
      KVT_CHECK(world_->pool_->table().Hold(kPoolAgent, slot).ok());
      world_->scope_.Spawn(
          world_->CopyIn(slot, sequence->swapped.at(copy.block), steps_->NextOnboard()));
    }
    sequence->swapped.clear();
    sequence->swapped_out = false;
    return true;
  });
}

}  // namespace kvtier
