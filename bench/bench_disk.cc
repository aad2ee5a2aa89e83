// bench: disk - DiskTier reads and writes, verified, beside fio on the same file system
// check: --rounds=3 --seconds=0.3 --size=64KiB
// check: --rounds=3 --seconds=0.3 --size=512KiB
// check: --rounds=3 --seconds=0.3 --size=2MiB
// check: --rounds=3 --seconds=0.3 --size=8MiB
//
// Both sides use io_uring, O_DIRECT, registered files and buffers, the same block size and queue
// depth, and alternate. Reads are random over 2 GiB, writes sequential over space that was written
// before. The tier's writes include the manifest, and it verifies every read.
//
// Before the tier writes a segment again, what it dropped must be durable: it flushes the device
// once a segment. Where that takes long, plain fio measures the device's cache; so fio that flushes
// as often is a second reference of the writes, and the one whose rate a mixed load is made of.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "bench/disk_recovery.h"
#include "bench/figure.h"
#include "bench/fio.h"
#include "bench/rounds.h"
#include "bench/tier_load.h"
#include "core/call_on_executor.h"
#include "core/lock_checks.h"
#include "core/status_macros.h"
#include "core/thread_executor.h"
#include "tier_disk/directory/open_disk.h"
#include "tier_disk/disk_tier.h"
#include "tier_disk/io/flush_ahead.h"
#include "tier_host/arena.h"

// clang-format off
ABSL_FLAG(std::string, dir, "build/bench-disk", "Where the tier's and fio's files go; they are removed at the end.");
ABSL_FLAG(double, seconds, 1.0, "Of each measurement.");
ABSL_FLAG(kvtier::bench::Rounds, rounds, {5}, "Of ours and fio's in turns; medians of the ratios count.");
ABSL_FLAG(std::string, size, "", "One block size alone: 64KiB, 512KiB, 2MiB or 8MiB; empty: all, and recovery.");
// clang-format on

namespace kvtier::bench {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
// Segments are a quarter of an agent's, so that a log of 2 GiB has the 32 of which one is freed
// ahead.
constexpr uint64_t kSegmentBytes = 64 * kMiB;
constexpr uint64_t kDataBytes = 32 * kSegmentBytes;  // Size of each side, but for the reserve.
constexpr int kByteThreads = 2;
constexpr double kWarmSeconds100k = 3;  // Promised time.
constexpr double kWarmSeconds2M = 15;
constexpr double kMaxIndexBytes = 64;

struct Size {
  const char* name;
  uint64_t bytes;
  int depth;  // 2 MiB to 32 MiB in flight: enough for one NVMe, small beside the data.
};
constexpr Size kSizes[] = {{"64KiB", 64 * kKiB, 32},
                           {"512KiB", 512 * kKiB, 16},
                           {"2MiB", 2 * kMiB, 8},
                           {"8MiB", 8 * kMiB, 4}};
constexpr double kReadShare = 0.7;  // Share of reads in the device's time of a mixed load.
constexpr Size kLatencySize = kSizes[2];

constexpr uint64_t kManyBlocks = 2'000'000;

struct Options {  // Values of the flags.
  std::string directory;
  double seconds = 0;
  int rounds = 0;
  std::string size;
};

// Returns the options. Errors: kInvalidArgument, naming the flag and its value.
absl::StatusOr<Options> OptionsFromFlags() {
  const Options options{.directory = absl::GetFlag(FLAGS_dir),
                        .seconds = absl::GetFlag(FLAGS_seconds),
                        .rounds = absl::GetFlag(FLAGS_rounds).count,
                        .size = absl::GetFlag(FLAGS_size)};
  if (!(options.seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("--seconds=", options.seconds, ": not above 0"));
  }
  const bool known = std::any_of(std::begin(kSizes), std::end(kSizes),
                                 [&](const Size& size) { return options.size == size.name; });
  if (!options.size.empty() && !known) {
    return absl::InvalidArgumentError(absl::StrCat("--size=", options.size, ": none of ours"));
  }
  return options;
}

// Contest has one tier and fio's file beside it, both written once, because space that was never
// written is slower.
class Contest {
 public:
  Contest(const Options& options, ThreadExecutor* executor, DiskTier* tier, TierLoad* load)
      : options_(options), executor_(executor), tier_(tier), load_(load) {}
  absl::Status Prepare();
  absl::Status Throughput(const Size& size);
  // Measures latency at half of the rate that fio reached.
  absl::Status Latency();
  // Compares reads beside puts with reads alone at half of that rate: 70 % of those reads, and for
  // the others puts that take the device as long; and all of them with puts added. Where a flush
  // takes long, all reads wait for it; so fio beside a fio that flushes is the second reference.
  absl::Status Mixed();

 private:
  absl::Status MixedBeside(const std::string& figure, double gets, double puts);
  // Returns fio's p99 of reads at one rate beside another that writes at another, and flushes as
  // often as the tier.
  absl::StatusOr<double> FioMixedP99(double reads, double writes) const;

  absl::Duration Round() const { return absl::Seconds(options_.seconds); }
  absl::StatusOr<IoFigures> Fio(const char* pattern, const Size& size, double seconds,
                                double rate = 0, uint64_t sync_bytes = 0) const;
  IoFigures Ours(const char* what, const Size& size);

  const Options options_;
  ThreadExecutor* const executor_;
  DiskTier* const tier_;
  TierLoad* const load_;
  double fio_reads_ = 0;   // Bytes per second at kLatencySize.
  double fio_writes_ = 0;  // The same of fio that flushes.
};

absl::StatusOr<IoFigures> Contest::Fio(const char* pattern, const Size& size, double seconds,
                                       double rate, uint64_t sync_bytes) const {
  return RunFio({.file = options_.directory + "/fio.data",
                 .pattern = pattern,
                 .file_bytes = kDataBytes,
                 .block_bytes = size.bytes,
                 .depth = size.depth,
                 .seconds = seconds,
                 .bytes_per_second = rate,
                 .sync_bytes = sync_bytes});
}

absl::Status Contest::Prepare() {
  const Size& largest = kSizes[std::size(kSizes) - 1];
  KVT_RETURN_IF_ERROR(Fio("write", largest, 0).status());
  AwaitOn(executor_, load_->Put({.bytes = largest.bytes,
                                 .streams = largest.depth,
                                 .limit = kDataBytes + kSegmentBytes}));
  return absl::OkStatus();
}

IoFigures Contest::Ours(const char* what, const Size& size) {
  const TierLoad::Streams streams{.bytes = size.bytes, .streams = size.depth, .for_time = Round()};
  const bool reads = what[0] == 'r';
  return AwaitOn(executor_, reads ? load_->Get(streams) : load_->Put(streams));
}

absl::Status Contest::Throughput(const Size& size) {
  for (const char* const what : {"write", "read"}) {
    const bool reads = what[0] == 'r';
    std::vector<double> speeds;
    std::vector<double> ratios;
    std::vector<double> synced_ratios;
    std::vector<double> cpu;
    std::vector<double> cpu_ratios;
    for (int round = 0; round < options_.rounds; ++round) {
      KVT_ASSIGN_OR_RETURN(const IoFigures fio,
                           Fio(reads ? "randread" : "write", size, options_.seconds));
      const IoFigures ours = Ours(what, size);
      speeds.push_back(ours.bytes_per_second / 1e9);
      ratios.push_back(ours.bytes_per_second / fio.bytes_per_second);
      if (!reads) {
        KVT_ASSIGN_OR_RETURN(const IoFigures synced,
                             Fio("write", size, options_.seconds, 0, kSegmentBytes));
        synced_ratios.push_back(ours.bytes_per_second / synced.bytes_per_second);
        fio_writes_ = synced.bytes_per_second;
      }
      cpu.push_back(ours.cpu_seconds_per_byte * 1e9);
      cpu_ratios.push_back(ours.cpu_seconds_per_byte / fio.cpu_seconds_per_byte);
      if (reads) fio_reads_ = fio.bytes_per_second;
    }
    PrintFigure(absl::StrCat("disk.", what, ".", size.name), Median(speeds), "GB/s", Median(ratios),
                "fio");
    if (!reads) {
      PrintFigure(absl::StrCat("disk.write.", size.name, ".durable"), Median(speeds), "GB/s",
                  Median(synced_ratios), "fio_synced");
    }
    PrintFigure(absl::StrCat("disk.", what, ".", size.name, ".cpu_s_per_GB"), Median(cpu), "s",
                Median(cpu_ratios), "fio");
  }
  if (size.bytes == kLatencySize.bytes) return Latency();
  return absl::OkStatus();
}

absl::Status Contest::Latency() {
  std::vector<double> p99;
  std::vector<double> ratios;
  const double rate = fio_reads_ / 2;
  for (int round = 0; round < options_.rounds; ++round) {
    KVT_ASSIGN_OR_RETURN(const IoFigures fio,
                         Fio("randread", kLatencySize, 2 * options_.seconds, rate));
    const IoFigures ours = AwaitOn(executor_, load_->GetPaced({.bytes = kLatencySize.bytes,
                                                               .get_bytes_per_second = rate,
                                                               .for_time = 2 * Round()}));
    p99.push_back(ours.p99_seconds * 1e3);
    ratios.push_back(ours.p99_seconds / fio.p99_seconds);
  }
  PrintFigure("disk.read.p99", Median(p99), "ms", Median(ratios), "fio");
  return Mixed();
}

absl::Status Contest::Mixed() {
  const double gets = fio_reads_ / 2;
  const double puts = fio_writes_ / 2;
  const uint64_t evictions = tier_->stats().evictions;
  KVT_RETURN_IF_ERROR(
      MixedBeside("disk.mixed.read.p99", kReadShare * gets, (1 - kReadShare) * puts));
  KVT_RETURN_IF_ERROR(MixedBeside("disk.mixed.read.p99.on_top", gets, (1 / kReadShare - 1) * puts));
  if (tier_->stats().evictions > evictions) return absl::OkStatus();
  return absl::InternalError("no reclaim ran beside the mixed load");
}

absl::StatusOr<double> Contest::FioMixedP99(double reads, double writes) const {
  const double seconds = 2 * options_.seconds;
  auto beside = std::async(std::launch::async, [&] {
    return Fio("write", kLatencySize, seconds, writes, kFlushAheadBytes).status();
  });
  const absl::StatusOr<IoFigures> figures = Fio("randread", kLatencySize, seconds, reads);
  KVT_RETURN_IF_ERROR(beside.get());
  if (!figures.ok()) return figures.status();
  return figures->p99_seconds;
}

absl::Status Contest::MixedBeside(const std::string& figure, double gets, double puts) {
  const TierLoad::Paced alone{
      .bytes = kLatencySize.bytes, .get_bytes_per_second = fio_reads_ / 2, .for_time = 2 * Round()};
  TierLoad::Paced both = alone;
  both.get_bytes_per_second = gets;
  both.put_bytes_per_second = puts;
  std::vector<double> p99;
  std::vector<double> ratios;
  std::vector<double> fio_ratios;
  for (int round = 0; round < options_.rounds; ++round) {
    KVT_ASSIGN_OR_RETURN(const double fio_p99, FioMixedP99(gets, puts));
    const IoFigures read_only = AwaitOn(executor_, load_->GetPaced(alone));
    const IoFigures mixed = AwaitOn(executor_, load_->GetPaced(both));
    p99.push_back(mixed.p99_seconds * 1e3);
    ratios.push_back(mixed.p99_seconds / read_only.p99_seconds);
    fio_ratios.push_back(mixed.p99_seconds / fio_p99);
  }
  PrintFigure(figure, Median(p99), "ms", Median(ratios), "read_only");
  PrintFigure(absl::StrCat(figure, ".durable"), Median(p99), "ms", Median(fio_ratios), "fio_mixed");
  return absl::OkStatus();
}

absl::Status Recovery(const Options& options) {
  const std::string directory = options.directory + "/recovery";
  const auto measure = [&](uint64_t blocks) {
    auto figures = MeasureDiskRecovery(directory, blocks);
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    return figures;
  };
  KVT_ASSIGN_OR_RETURN(const DiskRecoveryFigures few, measure(100'000));
  PrintFigure("disk.recovery.100k", few.warm_seconds, "s", few.warm_seconds / kWarmSeconds100k,
              "promise_3s");
  KVT_ASSIGN_OR_RETURN(const DiskRecoveryFigures many, measure(kManyBlocks));
  PrintFigure("disk.manifest.us_per_block", many.commit_seconds_per_block * 1e6, "us",
              many.commit_seconds_per_block / few.commit_seconds_per_block, "100k_blocks");
  PrintFigure("disk.manifest.bytes_per_block", many.manifest_bytes_per_block, "B",
              many.manifest_bytes_per_block / few.manifest_bytes_per_block, "100k_blocks");
  PrintFigure("disk.recovery.2M", many.warm_seconds, "s", many.warm_seconds / kWarmSeconds2M,
              "promise_15s");
  KVT_ASSIGN_OR_RETURN(const DiskRecoveryFigures million, measure(1'000'000));
  PrintFigure("disk.index_bytes_per_block", million.index_bytes_per_block, "B",
              million.index_bytes_per_block / kMaxIndexBytes, "promise_64B");
  return absl::OkStatus();
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
                [](DiskTier::Change, const BlockKey&, TenantTag) {});
  KVT_RETURN_IF_ERROR(AwaitOn(&executor, tier.Open()).status());
  KVT_ASSIGN_OR_RETURN(const auto arena, Arena::Create("bench", TierLoad::kMemoryBytes));
  TierLoad load(&executor, &tier, arena->bytes());
  const absl::Status registered = AwaitOn(&executor, disk.disk->AddMemory({arena->bytes()}));
  std::printf("disk tier over %s in %s, buffers %s, pages %s, beside fio\n",
              disk.io == DiskIoKind::kUring ? "io_uring" : "pread", options.directory.c_str(),
              registered.ok() ? "registered" : "not registered",
              arena->huge_pages() ? "huge" : "small");
  Contest contest(options, &executor, &tier, &load);
  KVT_RETURN_IF_ERROR(contest.Prepare());
  for (const Size& size : kSizes) {
    if (!options.size.empty() && options.size != size.name) continue;
    KVT_RETURN_IF_ERROR(contest.Throughput(size));
  }
  if (load.declined() > 0) {
    std::printf("%llu puts declined for want of room, and not counted\n",
                static_cast<unsigned long long>(load.declined()));
  }
  if (load.failures() > 0) {
    return absl::InternalError(absl::StrCat(
        load.failures(), " puts or gets failed, the first: ", load.first_failure().message()));
  }
  return options.size.empty() ? Recovery(options) : absl::OkStatus();
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The disk tier beside fio on the same file system.");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<Options> parsed = OptionsFromFlags();
  if (!parsed.ok()) {
    std::fprintf(stderr, "bench_disk: %s\n", std::string(parsed.status().message()).c_str());
    return 2;
  }
  const Options& options = *parsed;
  const absl::Status ran = Run(options);
  std::error_code error;
  std::filesystem::remove_all(options.directory + "/tier", error);
  std::filesystem::remove_all(options.directory + "/recovery", error);
  std::filesystem::remove(options.directory + "/fio.data", error);
  std::filesystem::remove(options.directory, error);  // Fails if there was something in it.
  if (ran.ok()) return 0;
  std::fprintf(stderr, "bench_disk: %s\n", ran.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) {
  kvtier::TurnOffLockChecks();
  return kvtier::bench::Main(argc, argv);
}
