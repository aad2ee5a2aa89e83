#include "bench/fio.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/command_output.h"
#include "core/status_macros.h"

namespace kvtier::bench {

absl::StatusOr<double> RunFio(const FioJob& job) {
  std::vector<std::string> words = {"fio",
                                    "--name=reference",
                                    "--ioengine=io_uring",
                                    "--direct=1",
                                    "--registerfiles=1",
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
  KVT_ASSIGN_OR_RETURN(const std::string json, OutputOf(std::move(words)));
  return JsonNumber(json, job.pattern == "randread" ? "read" : "write", "bw_bytes");
}

}  // namespace kvtier::bench
