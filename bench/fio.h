// Runs fio, the reference for what a device can do, and reads its answer.
#ifndef KVTIER_BENCH_FIO_H_
#define KVTIER_BENCH_FIO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kvtier::bench {

struct FioJob {
  std::string file;     // Made by fio, `file_bytes` long; the caller removes it.
  std::string pattern;  // fio's --rw: "randread", "write".
  uint64_t file_bytes = 0;
  uint64_t block_bytes = 0;
  int depth = 1;
  double seconds = 0;  // 0: once over the file.
};

// Bytes per second over io_uring, O_DIRECT, registered file. Errors: kNotFound, fio is
// not installed; kUnavailable, it failed or answered something else than expected.
absl::StatusOr<double> RunFio(const FioJob& job);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_FIO_H_
