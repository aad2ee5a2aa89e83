#include "bench/block_races.h"

#include <algorithm>
#include <numeric>

#include "absl/time/clock.h"
#include "core/check.h"

namespace kvtier::bench {
namespace {

constexpr size_t kStepEnded = 0;  // The word says how many steps have.
constexpr size_t kArrived = 1;    // How many loads.
constexpr uint64_t kPieces = 4;   // Segments of a block.

}  // namespace

BlockRaces::BlockRaces(StepCompute* compute, RaceEdges edges, uint64_t seed)
    : compute_(compute),
      edges_(edges),
      random_(seed),
      page_(*SignalPage::Create()),
      host_(MakeHostBytes(2 * kRounds * kBlocks * compute->block_bytes())) {
  const uint64_t host_bytes = 2 * kRounds * kBlocks * compute->block_bytes();
  KVT_CHECK(compute_->device()->Pin({host_.get(), host_bytes}).ok());
  KVT_CHECK(compute_->device()->Pin(page_->bytes()).ok());
  std::vector<uint32_t> slots(compute_->region()->bytes() / compute_->block_bytes());
  KVT_CHECK(slots.size() >= (kRounds + kGroups) * kBlocks);
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::shuffle(slots, random_);
  size_t next = 0;
  for (Flight& flight : flights_) {
    for (StepBlock& block : flight.stored) block.slot = slots[next++];
  }
  for (Group& group : loaded_) {
    for (StepBlock& block : group) block = {slots[next++], random_()};
    compute_->Fill(group);
  }
}

BlockRaces::~BlockRaces() {
  const uint64_t host_bytes = 2 * kRounds * kBlocks * compute_->block_bytes();
  KVT_CHECK(compute_->device()->Unpin({host_.get(), host_bytes}).ok());
  KVT_CHECK(compute_->device()->Unpin(page_->bytes()).ok());
}

std::span<std::byte> BlockRaces::StoredTo(size_t flight, size_t block) {
  const uint64_t bytes = compute_->block_bytes();
  return {host_.get() + (flight * kBlocks + block) * bytes, bytes};
}

std::span<std::byte> BlockRaces::LoadedFrom(size_t flight, size_t block) {
  return StoredTo(kRounds + flight, block);
}

void BlockRaces::Poll() {
  std::array<Completion, kLanes * kMaxLaneDepth> ended;
  const size_t count = compute_->device()->Poll(ended);
  for (size_t i = 0; i < count; ++i) {
    KVT_CHECK(ended[i].status.ok());
    // The emulated kernels are operations of the compute lane, too, and none is counted.
    if (ended[i].ticket.lane == Lane::kCompute) continue;
    std::vector<size_t>& pending = pending_[static_cast<size_t>(ended[i].ticket.lane)];
    const size_t flight = pending.front();
    pending.erase(pending.begin());
    if (flight < kRounds) --flights_[flight].copies;
  }
  if (count == 0) compute_->Pass();
}

void BlockRaces::WaitFor(size_t flight, uint64_t round) {
  while (flights_[flight].copies > 0) Poll();
  while (!compute_->device()->Reached(*page_->word(kStepEnded), round)) Poll();
}

void BlockRaces::LookAtStored(size_t flight) {
  for (size_t i = 0; i < kBlocks; ++i) {
    compute_->HostReads(StoredTo(flight, i));
    counts_.wrong_stored += WrongWords(StoredTo(flight, i), flights_[flight].stored[i].value);
    counts_.words += compute_->block_bytes() / sizeof(uint64_t);
  }
}

void BlockRaces::SubmitCopy(CopyDirection direction, size_t flight, const Group& group) {
  const bool loads = direction == CopyDirection::kHostToDevice;
  const Lane lane = LaneOf(direction);
  Device* const device = compute_->device();
  std::vector<size_t>& pending = pending_[static_cast<size_t>(lane)];
  if (loads ? edges_.before_load : edges_.before_store) {
    KVT_CHECK(device->Await(lane, page_->word(kStepEnded), counts_.rounds).ok());
    pending.push_back(kRounds);
  }
  std::array<CopySegment, kBlocks * kPieces> segments;
  const uint64_t bytes = compute_->block_bytes() / kPieces;
  for (size_t i = 0; i < segments.size(); ++i) {
    const size_t block = i / kPieces;
    const uint64_t within = i % kPieces * bytes;
    const std::span<std::byte> host = loads ? LoadedFrom(flight, block) : StoredTo(flight, block);
    segments[i] = {group[block].slot * compute_->block_bytes() + within, host.data() + within,
                   bytes};
  }
  const std::span<const CopyPath> paths = compute_->paths();
  KVT_CHECK(device
                ->Submit({.direction = direction,
                          .path = paths[random_() % paths.size()],
                          .region = compute_->region(),
                          .segments = segments})
                .ok());
  pending.push_back(flight);
  ++flights_[flight].copies;
  if (!loads) return;
  KVT_CHECK(device->Signal(lane, page_->word(kArrived), counts_.rounds).ok());
  pending.push_back(kRounds);
}

void BlockRaces::Round() {
  const size_t flight = counts_.rounds % kRounds;
  Group& read = loaded_[counts_.rounds % kGroups];
  // The round that had these buffers and blocks before.
  if (counts_.rounds >= kRounds) {
    WaitFor(flight, counts_.rounds + 1 - kRounds);
    LookAtStored(flight);
  }
  ++counts_.rounds;
  Group next = read;
  for (size_t i = 0; i < kBlocks; ++i) {
    flights_[flight].stored[i].value = random_();
    next[i].value = random_();
    FillWords(LoadedFrom(flight, i), next[i].value);
    compute_->HostWrites(LoadedFrom(flight, i));
  }

  Device* const device = compute_->device();
  if (counts_.rounds > kGroups) {
    KVT_CHECK(device->Await(Lane::kCompute, page_->word(kArrived), counts_.rounds - kGroups).ok());
  }
  compute_->Check(read);
  counts_.words += kBlocks * compute_->block_bytes() / sizeof(uint64_t);
  compute_->Fill(flights_[flight].stored);
  KVT_CHECK(device->Signal(Lane::kCompute, page_->word(kStepEnded), counts_.rounds).ok());
  SubmitCopy(CopyDirection::kDeviceToHost, flight, flights_[flight].stored);
  SubmitCopy(CopyDirection::kHostToDevice, flight, next);
  read = next;
}

RaceCounts BlockRaces::Finish() {
  for (size_t flight = 0; flight < std::min<uint64_t>(kRounds, counts_.rounds); ++flight) {
    WaitFor(flight, counts_.rounds);
    LookAtStored(flight);
  }
  while (!compute_->device()->Reached(*page_->word(kArrived), counts_.rounds)) Poll();
  KVT_CHECK(compute_->device()->Drain(absl::Seconds(10)).ok());
  std::array<Completion, 16> ended;
  while (compute_->device()->Poll(ended) > 0) {
  }
  counts_.wrong_loaded = compute_->wrong_words();
  counts_.unordered = compute_->unordered();
  return counts_;
}

RaceCounts RunRaces(StepCompute* compute, RaceEdges edges, absl::Duration time) {
  BlockRaces races(compute, edges, 1);
  const absl::Time end = absl::Now() + time;
  do {
    races.Round();
  } while (absl::Now() < end);
  return races.Finish();
}

}  // namespace kvtier::bench
