#include "bench/fio.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/command_output.h"
#include "core/status_macros.h"

namespace kvtier::bench {

absl::StatusOr<IoFigures> RunFio(const FioJob& job) {
  std::vector<std::string> words = {"env",
                                    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
                                    "fio",
                                    "--name=reference",
                                    "--ioengine=io_uring",
                                    "--direct=1",
                                    "--registerfiles=1",
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
  KVT_ASSIGN_OR_RETURN(const std::string json,
                       OutputOf(std::move(words), absl::InfiniteDuration()));
  const char* const side = reads ? "read" : "write";
  IoFigures result;
  KVT_ASSIGN_OR_RETURN(result.bytes_per_second, JsonNumber(json, side, "bw_bytes"));
  KVT_ASSIGN_OR_RETURN(const double p99_ns, JsonNumber(json, side, "99.000000"));
  result.p99_seconds = p99_ns / 1e9;
  // Percentages of the run time; they follow the job's options.
  KVT_ASSIGN_OR_RETURN(const double user, JsonNumber(json, "job options", "usr_cpu"));
  KVT_ASSIGN_OR_RETURN(const double system, JsonNumber(json, "job options", "sys_cpu"));
  result.cpu_seconds_per_byte = (user + system) / 100 / result.bytes_per_second;
  return result;
}

}  // namespace kvtier::bench
