#include "tests/tier_gpu/gpu_world.h"

#include <cstring>
#include <utility>

#include "core/check.h"
#include "tests/tier_gpu/gpu_world_worker.h"

namespace kvtier {
namespace {

constexpr int kStepsOfAWorker = 40;

}  // namespace

GpuWorld::GpuWorld(uint64_t seed, LeftOut left_out)
    : left_out_(left_out),
      random_(seed),
      requests_(*SignalPage::Create()),
      device_(&executor_, {.seed = random_(), .checker = &checker_, .process = "the agent"}) {
  for (size_t block = kHostBlocks; block > 0; --block) free_host_.push_back(block - 1);
  KVT_CHECK(device_.Pin(host_).ok());
  pool_ = *GpuPool::Create(&device_, &runner_,
                           {.bytes = kSlots * kBlockBytes, .slot_bytes = kBlockBytes});
  tables_ = std::make_unique<BlockTable>(&pool_->table(), kBlockTokens);
  words_ = std::make_unique<StepWords>(&device_, &pool_->table(), &executor_, &scope_);
  for (const char* name : {"worker one", "worker two"}) {
    workers_.push_back(std::make_unique<Worker>(this, name));
  }
}

GpuWorld::~GpuWorld() {
  workers_.clear();
  cache_.clear();
}

void GpuWorld::Run() {
  for (const auto& worker : workers_) scope_.Spawn(worker->Live(kStepsOfAWorker));
  while (scope_.running() > 0) KVT_CHECK(time_.Step());
  Observe();
  tables_->Audit();
  KVT_CHECK(pool_->used_bytes() == 0);
  cache_.clear();
  KVT_CHECK(free_host_.size() == kHostBlocks);
}

void GpuWorld::Observe() {
  words_->Observe();
  if (!left_out_.wait_for_readers) return;
  SlotTable& table = pool_->table();
  for (uint32_t worker = 1; worker < table.workers(); ++worker) {
    const uint64_t begun = table.begun(PoolWorker{worker});
    // Makes the mistake "it was a step ago, so it must be done by now".
    if (begun > 0) KVT_CHECK(table.Retire(PoolWorker{worker}, begun - 1).ok());
  }
}

GpuWorld::SharedHostBlock GpuWorld::TakeHostBlock() {
  if (free_host_.empty()) {
    // Any block that is not being copied may leave.
    std::erase_if(cache_, [this](const SharedHostBlock& block) {
      return block.use_count() == 1 && Chance(0.5);
    });
  }
  if (free_host_.empty()) return nullptr;
  const size_t index = free_host_.back();
  free_host_.pop_back();
  return std::make_shared<HostBlock>(this, index);
}

void GpuWorld::CheckTokens(std::span<const std::byte> block, std::span<const uint32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    uint32_t first = 0;
    uint32_t last = 0;
    std::memcpy(&first, block.data() + i * kTokenBytes, sizeof(first));
    std::memcpy(&last, block.data() + (i + 1) * kTokenBytes - sizeof(last), sizeof(last));
    if (first != tokens[i] || last != tokens[i]) ++wrong_tokens_;
  }
}

Task<void> GpuWorld::CopyOut(SlotRef slot, SharedHostBlock to, PoolWorker worker, uint64_t step) {
  absl::StatusOr<bool> complete = true;
  if (!left_out_.wait_for_writer) {
    const absl::Time deadline = executor_.Now() + absl::Seconds(1);
    complete = co_await words_->Retired(worker, step, deadline);
    KVT_CHECK(complete.ok());
  }
  // A worker that died may have left the block half written.
  if (*complete) {
    const GpuTransfer out = {slot, BytesOf(*to)};
    const absl::Status copied = co_await pool_->Gather({&out, 1}, CopyUrgency::kBackground);
    KVT_CHECK(copied.ok());
    device_.NoteHostAccess(AccessChecker::Access::kRead, BytesOf(*to));
    CheckTokens(BytesOf(*to), to->tokens);
    to->filled = true;
  }
  KVT_CHECK(pool_->table().Release(kPoolAgent, slot).ok());
}

Task<void> GpuWorld::Offload(SlotRef slot, SharedHostBlock to, PoolWorker worker, uint64_t step) {
  co_await CopyOut(slot, to, worker, step);
  if (to->filled) cache_.push_back(std::move(to));
}

Task<void> GpuWorld::CopyIn(SlotRef slot, SharedHostBlock from, LaneRunner::Mark arrived) {
  LaneRunner::Copy copy{.direction = CopyDirection::kHostToDevice, .region = pool_->region()};
  LaneRunner::Batch& batch = copy.batches.emplace_back();
  batch.segments = {{pool_->OffsetOf(slot.index), BytesOf(*from).data(), kBlockBytes}};
  batch.before = std::move(arrived);
  const absl::Status copied = co_await runner_.Run(std::move(copy));
  KVT_CHECK(copied.ok());
  KVT_CHECK(pool_->table().Release(kPoolAgent, slot).ok());
}

}  // namespace kvtier
