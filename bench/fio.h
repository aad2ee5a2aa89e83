// Runs fio, the reference for what a device can do, and reads its answer.
#ifndef KVTIER_BENCH_FIO_H_
#define KVTIER_BENCH_FIO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/io_figures.h"

namespace kvtier::bench {

struct FioJob {
  std::string file;     // Made by fio, `file_bytes` long; the caller removes it.
  std::string pattern;  // fio's --rw: "randread", "write".
  uint64_t file_bytes = 0;
  uint64_t block_bytes = 0;
  int depth = 1;
  double seconds = 0;           // 0: once over the file.
  double bytes_per_second = 0;  // 0: as fast as it goes; else I/Os start evenly spaced.
};

// Over io_uring, O_DIRECT, registered file and buffers, those in huge pages as arenas are:
// without, a device that is handed every small page apart would flatter us. Errors:
// kUnavailable, fio is not installed, failed or answered something else than expected.
absl::StatusOr<IoFigures> RunFio(const FioJob& job);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_FIO_H_
