#include "bench/tier_load.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "core/check.h"
#include "core/checksum.h"
#include "tests/testing/numbered_key.h"

namespace kvtier::bench {
namespace {

// Maximum speed, in bytes per second, for which Put() names all blocks before it measures.
constexpr double kFastestPuts = 10e9;

double CpuSeconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double P99(std::vector<double>* seconds) {
  if (seconds->empty()) return 0;
  const auto at = seconds->begin() + static_cast<ptrdiff_t>(seconds->size() * 99 / 100);
  std::nth_element(seconds->begin(), at, seconds->end());
  return *at;
}

}  // namespace

// Measurement covers, from its construction to Figures(), time and CPU of the whole process.
class TierLoad::Measurement {
 public:
  explicit Measurement(TierLoad* load)
      : load_(load), started_(load->executor_->Now()), cpu_(CpuSeconds()) {
    load_->moved_ = 0;
    load_->latencies_.clear();
  }
  IoFigures Figures() {
    const auto bytes = static_cast<double>(load_->moved_);
    const double seconds = absl::ToDoubleSeconds(load_->executor_->Now() - started_);
    return {.bytes_per_second = bytes / seconds,
            .p99_seconds = P99(&load_->latencies_),
            .cpu_seconds_per_byte = (CpuSeconds() - cpu_) / bytes};
  }

 private:
  TierLoad* const load_;
  const absl::Time started_;
  const double cpu_;
};

TierLoad::TierLoad(Executor* executor, DiskTier* tier, std::span<std::byte> memory)
    : executor_(executor), tier_(tier), memory_(memory), payload_(memory.first(kLargestBlock)) {
  KVT_CHECK(memory.size() == kMemoryBytes);
  std::mt19937_64 random(1);
  for (size_t i = 0; i < memory.size(); i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(memory.data() + i, &word, sizeof(word));
  }
}

std::vector<std::span<std::byte>> TierLoad::SlotsOf(uint64_t bytes, size_t most) {
  std::vector<std::span<std::byte>> slots;
  std::span<std::byte> rest = memory_.subspan(kLargestBlock);
  for (; slots.size() < most && rest.size() >= bytes; rest = rest.subspan(bytes)) {
    slots.push_back(rest.first(bytes));
  }
  return slots;
}

std::vector<BlockKey> TierLoad::KeysOf(uint64_t bytes) const {
  std::vector<BlockKey> keys;
  for (const BlockKey& key : tier_->Keys()) {
    if (tier_->Find(key)->length == bytes) keys.push_back(key);
  }
  return keys;
}

void TierLoad::NameBlocks(double bytes, uint64_t block_bytes) {
  const size_t end = puts_ + static_cast<size_t>(bytes / static_cast<double>(block_bytes));
  while (names_.size() < end) names_.push_back(testing::NumberedKey(names_.size()));
}

void TierLoad::Count(const absl::Status& failure) {
  ++failures_;
  first_failure_.Update(failure);
}

Task<void> TierLoad::PutOne(uint64_t bytes, std::vector<double>* latencies) {
  const absl::Time started = executor_->Now();
  if (puts_ == names_.size()) names_.push_back(testing::NumberedKey(puts_));
  const BlockMeta meta{.key = names_[puts_++], .length = bytes, .sum = sum_};
  const absl::Status put = co_await tier_->Put(meta, payload_.first(bytes));
  // The put was declined under pressure: nothing moved, and it is no failure of the tier.
  if (absl::IsResourceExhausted(put)) {
    ++declined_;
    co_return;
  }
  if (!put.ok()) Count(put);
  moved_ += latencies == nullptr ? 0 : bytes;
  if (latencies != nullptr) latencies->push_back(absl::ToDoubleSeconds(executor_->Now() - started));
}

Task<void> TierLoad::GetOne(BlockKey key, std::span<std::byte> slot) {
  const absl::Time started = executor_->Now();
  const absl::StatusOr<BlockMeta> got = co_await tier_->Get(key, slot);
  // The block was reclaimed under a load that also puts: a miss, which is not measured.
  if (absl::IsNotFound(got.status())) co_return;
  if (!got.ok()) Count(got.status());
  moved_ += slot.size();
  latencies_.push_back(absl::ToDoubleSeconds(executor_->Now() - started));
}

Task<void> TierLoad::PutStream(Streams load) {
  while (executor_->Now() < until_ && moved_ < load.limit) {
    co_await PutOne(load.bytes, &latencies_);
  }
}

Task<void> TierLoad::GetStream(std::span<std::byte> slot, uint64_t seed) {
  std::mt19937_64 random(seed);
  while (executor_->Now() < until_) co_await GetOne(keys_[random() % keys_.size()], slot);
}

Task<IoFigures> TierLoad::Put(Streams load) {
  NameBlocks(std::min(static_cast<double>(load.limit),
                      kFastestPuts * absl::ToDoubleSeconds(load.for_time)),
             load.bytes);
  Measurement measurement(this);
  sum_ = SumPayload(payload_.first(load.bytes));
  until_ = executor_->Now() + load.for_time;
  TaskScope streams(executor_);
  for (int i = 0; i < load.streams; ++i) streams.Spawn(PutStream(load));
  co_await streams.Idle(absl::InfiniteFuture());
  co_return measurement.Figures();
}

Task<IoFigures> TierLoad::Get(Streams load) {
  keys_ = KeysOf(load.bytes);
  if (keys_.empty()) co_return IoFigures();
  Measurement measurement(this);
  until_ = executor_->Now() + load.for_time;
  TaskScope streams(executor_);
  uint64_t seed = 0;
  for (const std::span<std::byte> slot : SlotsOf(load.bytes, static_cast<size_t>(load.streams))) {
    streams.Spawn(GetStream(slot, ++seed));
  }
  co_await streams.Idle(absl::InfiniteFuture());
  co_return measurement.Figures();
}

Task<void> TierLoad::PutPaced(Paced load, TaskScope* puts) {
  const absl::Duration gap =
      absl::Seconds(static_cast<double>(load.bytes) / load.put_bytes_per_second);
  for (absl::Time next = executor_->Now(); next < until_; next += gap) {
    co_await SleepUntil(executor_, next);
    puts->Spawn(PutOne(load.bytes, nullptr));
  }
}

Task<IoFigures> TierLoad::GetPaced(Paced load) {
  keys_ = KeysOf(load.bytes);
  sum_ = SumPayload(payload_.first(load.bytes));
  if (keys_.empty()) co_return IoFigures();
  const std::vector<std::span<std::byte>> slots = SlotsOf(load.bytes, kMaxGetBytes / load.bytes);
  const absl::Duration gap =
      absl::Seconds(static_cast<double>(load.bytes) / load.get_bytes_per_second);
  std::mt19937_64 random(1);
  NameBlocks(load.put_bytes_per_second * absl::ToDoubleSeconds(load.for_time), load.bytes);
  TaskScope puts(executor_);
  TaskScope gets(executor_);
  Measurement measurement(this);
  until_ = executor_->Now() + load.for_time;
  if (load.put_bytes_per_second > 0) puts.Spawn(PutPaced(load, &puts));
  size_t started = 0;
  for (absl::Time next = executor_->Now(); next < until_; next += gap) {
    co_await SleepUntil(executor_, next);
    // More gets are in flight than there are slots: the disk does not keep up, and the last gets
    // show it.
    if (gets.running() >= slots.size()) continue;
    gets.Spawn(GetOne(keys_[random() % keys_.size()], slots[started++ % slots.size()]));
  }
  co_await gets.Idle(absl::InfiniteFuture());
  const IoFigures figures = measurement.Figures();
  co_await puts.Idle(absl::InfiniteFuture());
  co_return figures;
}

}  // namespace kvtier::bench
