// Runs fio, the reference for the speed of a device, and reads its result.
#ifndef KVTIER_BENCH_FIO_H_
#define KVTIER_BENCH_FIO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/io_figures.h"

namespace kvtier::bench {

struct FioJob {
  std::string file;     // File that fio makes, `file_bytes` long; the caller removes it.
  std::string pattern;  // Value of fio's --rw: "randread", "write".
  uint64_t file_bytes = 0;
  uint64_t block_bytes = 0;
  int depth = 1;
  double seconds = 0;           // Duration of the run; 0: one pass over the file.
  double bytes_per_second = 0;  // Rate of the I/Os, which start evenly spaced; 0: unlimited.
  // Bytes written between two fdatasync(), which take part in the rate as the flush at the end
  // does; 0: never synced.
  uint64_t sync_bytes = 0;
};

// Runs a job over io_uring, O_DIRECT, with registered buffers, and a registered file unless it is
// synced; then flushes the device. The buffers are in huge pages as arenas are: if the device got
// every small page separately, fio would be slower and our ratio too good. Errors: kUnavailable,
// fio is not installed, failed or gave an unexpected result.
absl::StatusOr<IoFigures> RunFio(const FioJob& job);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_FIO_H_
