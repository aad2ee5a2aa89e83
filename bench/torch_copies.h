// What torch takes for the same: index_select of scattered rows on the GPU and one copy_
// into pinned host memory, and the way back. A python3 of its own measures it, where that
// has a torch with a GPU.
#ifndef KVTIER_BENCH_TORCH_COPIES_H_
#define KVTIER_BENCH_TORCH_COPIES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <span>

#include "absl/status/statusor.h"

namespace kvtier::bench {

struct TorchCell {
  uint64_t row_bytes = 0;
  uint64_t rows = 0;
  auto operator<=>(const TorchCell&) const = default;
};
struct TorchSpeeds {
  double in = 0;  // Bytes a second.
  double out = 0;
};

// On GPU `ordinal`, every byte proved before. Errors: kNotFound, no python3; kUnavailable,
// it has no torch, torch sees no GPU, or bytes were wrong: in its words; kDeadlineExceeded,
// two minutes were not enough.
absl::StatusOr<std::map<TorchCell, TorchSpeeds>> MeasureTorch(int ordinal,
                                                              std::span<const TorchCell> cells);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TORCH_COPIES_H_
