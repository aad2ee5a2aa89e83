// Figures of a load on a disk, ours and fio's alike.
#ifndef KVTIER_BENCH_IO_FIGURES_H_
#define KVTIER_BENCH_IO_FIGURES_H_

namespace kvtier::bench {

struct IoFigures {
  double bytes_per_second = 0;
  double p99_seconds = 0;           // Time of one block, from its start to its end.
  double cpu_seconds_per_byte = 0;  // CPU time of the process, in user and kernel mode.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_IO_FIGURES_H_
