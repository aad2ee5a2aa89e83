#include "bench/fio.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/command_output.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

// Flushes what the device has in its volatile cache, so that the next to write does not pay for it.
absl::Status Flush(const std::string& file) {
  const int opened = open(file.c_str(), O_RDWR | O_CLOEXEC);
  const bool flushed = opened >= 0 && fdatasync(opened) == 0;
  const int error = errno;
  if (opened >= 0) close(opened);
  if (flushed) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("flushing ", file, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<IoFigures> RunFio(const FioJob& job) {
  std::vector<std::string> words = {"env",
                                    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
                                    "fio",
                                    "--name=reference",
                                    "--ioengine=io_uring",
                                    "--direct=1",
                                    "--fixedbufs=1",
                                    "--norandommap=1",
                                    "--output-format=json",
                                    absl::StrCat("--filename=", job.file),
                                    absl::StrCat("--rw=", job.pattern),
                                    absl::StrCat("--size=", job.file_bytes),
                                    absl::StrCat("--bs=", job.block_bytes),
                                    absl::StrCat("--iodepth=", job.depth)};
  if (job.seconds > 0) {
    words.push_back("--time_based=1");
    words.push_back(absl::StrCat("--runtime=", static_cast<int>(job.seconds * 1000), "ms"));
  }
  const bool reads = job.pattern == "randread";
  if (job.bytes_per_second > 0) {
    words.push_back(absl::StrCat("--rate=", static_cast<uint64_t>(job.bytes_per_second)));
  }
  if (job.sync_bytes > 0) {
    words.push_back(absl::StrCat("--fdatasync=", job.sync_bytes / job.block_bytes));
  } else {
    words.push_back("--registerfiles=1");  // With it, fio's fdatasync() does nothing.
  }
  KVT_ASSIGN_OR_RETURN(const std::string json,
                       OutputOf(std::move(words), absl::InfiniteDuration()));
  const absl::Time ended = absl::Now();
  KVT_RETURN_IF_ERROR(Flush(job.file));
  const double flush_seconds = absl::ToDoubleSeconds(absl::Now() - ended);
  const char* const side = reads ? "read" : "write";
  IoFigures result;
  KVT_ASSIGN_OR_RETURN(result.bytes_per_second, JsonNumber(json, side, "bw_bytes"));
  KVT_ASSIGN_OR_RETURN(const double p99_ns, JsonNumber(json, side, "99.000000"));
  if (job.sync_bytes > 0) {
    const double bytes = job.seconds > 0 ? job.seconds * result.bytes_per_second
                                         : static_cast<double>(job.file_bytes);
    result.bytes_per_second = bytes / (bytes / result.bytes_per_second + flush_seconds);
  }
  result.p99_seconds = p99_ns / 1e9;
  // Percentages of the run time; they follow the job's options.
  KVT_ASSIGN_OR_RETURN(const double user, JsonNumber(json, "job options", "usr_cpu"));
  KVT_ASSIGN_OR_RETURN(const double system, JsonNumber(json, "job options", "sys_cpu"));
  result.cpu_seconds_per_byte = (user + system) / 100 / result.bytes_per_second;
  return result;
}

}  // namespace kvtier::bench
