// bench: disk - DiskTier reads and writes, verified, beside fio on the same file system
//
// Both sides: io_uring, O_DIRECT, the same block size and queue depth, one after the
// other. Reads are random over 1 GiB, writes sequential over space that was written
// before; the tier's include the manifest, and every read is verified.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "bench/fio.h"
#include "core/status_macros.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/open_disk.h"
#include "tier_disk/page_buffer.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kDataBytes = 896 * kMiB;  // Each side's; the tier's reserve makes 1 GiB.
constexpr uint64_t kSegmentBytes = 128 * kMiB;
constexpr int kByteThreads = 2;

struct Size {
  const char* name;
  uint64_t bytes;
  int depth;  // 2 MiB to 32 MiB in flight: enough for one NVMe, small beside the data.
};
constexpr Size kSizes[] = {{"64KiB", 64 << 10, 32},
                           {"512KiB", 512 << 10, 16},
                           {"2MiB", 2 * kMiB, 8},
                           {"8MiB", 8 * kMiB, 4}};
constexpr size_t kLargest = std::size(kSizes) - 1;

struct Options {
  std::string directory = "build/bench-disk";
  double seconds = 2.0;  // Of each of the 16 measurements.
};

// A tier on real files, and the streams that load it. Made and used on one executor.
class TierLoad {
 public:
  TierLoad(Executor* executor, DiskTier* tier, double seconds);
  // Bytes per second of puts in `depth` streams, or until `limit` bytes are written.
  Task<double> Write(const Size& size, uint64_t limit);
  Task<double> Read(const Size& size);
  uint64_t failures() const { return failures_; }

 private:
  Task<void> PutStream(const Size& size, uint64_t limit);
  Task<void> GetStream(const Size& size, uint64_t seed);
  Task<double> Finish(std::unique_ptr<TaskScope> streams);

  Executor* const executor_;
  DiskTier* const tier_;
  const double seconds_;
  PageBuffer payload_;  // Of every block: the sum is taken at commit, not by the tier.
  absl::Time started_;
  absl::Time until_;
  uint64_t next_ = 1;   // Keys are numbers: the tier does not care.
  uint64_t moved_ = 0;  // Bytes of the measurement under way.
  uint64_t failures_ = 0;
  std::vector<BlockKey> keys_;  // What Read() asks for.
};

TierLoad::TierLoad(Executor* executor, DiskTier* tier, double seconds)
    : executor_(executor), tier_(tier), seconds_(seconds), payload_(kSizes[kLargest].bytes) {
  std::mt19937_64 random(1);
  for (size_t i = 0; i < payload_.bytes().size(); i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(payload_.bytes().data() + i, &word, sizeof(word));
  }
}

Task<void> TierLoad::PutStream(const Size& size, uint64_t limit) {
  const std::span<const std::byte> slot = payload_.bytes().first(size.bytes);
  BlockMeta block{.length = size.bytes, .sum = SumPayload(slot)};
  while (executor_->Now() < until_ && moved_ < limit) {
    moved_ += size.bytes;
    block.key = {.hi = next_++, .lo = size.bytes};
    const absl::Status put = co_await tier_->Put(block, slot);
    if (!put.ok()) ++failures_;
  }
}

Task<void> TierLoad::GetStream(const Size& size, uint64_t seed) {
  PageBuffer slot(size.bytes);
  std::mt19937_64 random(seed);
  while (executor_->Now() < until_) {
    const BlockKey key = keys_[random() % keys_.size()];
    const auto got = co_await tier_->Get(key, slot.bytes());
    if (!got.ok()) ++failures_;
    moved_ += size.bytes;
  }
}

Task<double> TierLoad::Finish(std::unique_ptr<TaskScope> streams) {
  co_await streams->Idle(absl::InfiniteFuture());
  co_return static_cast<double>(moved_) / absl::ToDoubleSeconds(executor_->Now() - started_);
}

Task<double> TierLoad::Write(const Size& size, uint64_t limit) {
  auto streams = std::make_unique<TaskScope>(executor_);
  moved_ = 0;
  started_ = executor_->Now();
  until_ = limit == 0 ? started_ + absl::Seconds(seconds_) : absl::InfiniteFuture();
  const uint64_t bytes = limit == 0 ? ~uint64_t{0} : limit;
  for (int i = 0; i < size.depth; ++i) streams->Spawn(PutStream(size, bytes));
  co_return co_await Finish(std::move(streams));
}

Task<double> TierLoad::Read(const Size& size) {
  keys_.clear();
  for (const BlockKey& key : tier_->Keys()) {
    if (tier_->Find(key)->length == size.bytes) keys_.push_back(key);
  }
  if (keys_.empty()) co_return 0.0;
  auto streams = std::make_unique<TaskScope>(executor_);
  moved_ = 0;
  started_ = executor_->Now();
  until_ = started_ + absl::Seconds(seconds_);
  for (int i = 0; i < size.depth; ++i) streams->Spawn(GetStream(size, static_cast<uint64_t>(i)));
  co_return co_await Finish(std::move(streams));
}

// Runs `task` on the executor and waits for it.
double Await(Executor* executor, Task<double> task) {
  double value = 0;
  std::unique_ptr<TaskScope> scope;
  absl::Notification ended;
  absl::Notification cleared;
  executor->Post([&] {
    scope = std::make_unique<TaskScope>(executor);
    scope->Spawn([](Task<double> task, double* value, absl::Notification* ended) -> Task<void> {
      *value = co_await task;
      ended->Notify();
    }(std::move(task), &value, &ended));
  });
  ended.WaitForNotification();
  executor->Post([&] {
    scope.reset();
    cleared.Notify();
  });
  cleared.WaitForNotification();
  return value;
}

void PrintFigure(const char* what, const Size& size, double tier, double fio) {
  std::printf("figure disk.%s.%s %.2f GB/s %.2f fio\n", what, size.name, tier / 1e9, tier / fio);
  std::fflush(stdout);
}

Task<double> OpenTier(DiskTier* tier) {
  const auto opened = co_await tier->Open();
  co_return opened.ok() ? 1.0 : 0.0;
}

absl::Status Measure(const Options& options, TierLoad* load, ThreadExecutor* executor) {
  FioJob fio{.file = options.directory + "/fio.data", .file_bytes = kDataBytes};
  // Space that was never written is slower to write: both sides write theirs once.
  const Size& largest = kSizes[kLargest];
  fio.pattern = "write";
  fio.block_bytes = largest.bytes;
  fio.depth = largest.depth;
  KVT_RETURN_IF_ERROR(RunFio(fio).status());
  Await(executor, load->Write(largest, kDataBytes + kSegmentBytes));
  fio.seconds = options.seconds;
  for (const Size& size : kSizes) {
    fio.block_bytes = size.bytes;
    fio.depth = size.depth;
    fio.pattern = "write";
    KVT_ASSIGN_OR_RETURN(const double fio_write, RunFio(fio));
    PrintFigure("write", size, Await(executor, load->Write(size, 0)), fio_write);
    fio.pattern = "randread";
    KVT_ASSIGN_OR_RETURN(const double fio_read, RunFio(fio));
    PrintFigure("read", size, Await(executor, load->Read(size)), fio_read);
  }
  if (load->failures() == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(load->failures(), " puts or gets failed"));
}

absl::Status Run(const Options& options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  if (error) return absl::UnavailableError(absl::StrCat(options.directory, ": ", error.message()));
  ThreadExecutor executor("bench-executor");
  BytePool pool(&executor, "bench-bytes", kByteThreads);
  const DiskLayout layout{.directory = options.directory + "/tier",
                          .segment_bytes = kSegmentBytes,
                          .segment_count = kDataBytes / kSegmentBytes + 1};
  KVT_ASSIGN_OR_RETURN(const OpenedDisk disk, OpenDisk(&executor, layout, DiskIoKind::kAuto));
  DiskTier tier(&executor, &pool, disk.disk.get(), disk.manifest.get(),
                [](DiskTier::Change, const BlockKey&) {});
  if (Await(&executor, OpenTier(&tier)) == 0) return absl::UnavailableError("tier did not open");
  std::printf("disk tier over %s in %s, beside fio\n",
              disk.io == DiskIoKind::kUring ? "io_uring" : "pread", options.directory.c_str());
  TierLoad load(&executor, &tier, options.seconds);
  return Measure(options, &load, &executor);
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const absl::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (value != nullptr && flag == "--dir") {
      options.directory = value;
    } else if (value != nullptr && flag == "--seconds" && std::atof(value) > 0) {
      options.seconds = std::atof(value);
    } else {
      std::fprintf(stderr, "usage: %s [--dir DIRECTORY] [--seconds SECONDS]\n", argv[0]);
      return 2;
    }
  }
  const absl::Status ran = Run(options);
  std::error_code error;
  std::filesystem::remove_all(options.directory + "/tier", error);
  std::filesystem::remove(options.directory + "/fio.data", error);
  std::filesystem::remove(options.directory, error);  // Unless there was something in it.
  if (ran.ok()) return 0;
  std::fprintf(stderr, "bench_disk: %s\n", ran.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
