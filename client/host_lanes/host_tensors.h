// HostTensors are an inference engine's KV tensors in this process's own memory: checked once, and
// then where the bytes of each block are.
//
// A value; does not own the tensors, which must outlive it.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/kv_tensors.h"
#include "core/copy_sum.h"
#include "core/space.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

class HostTensors {
 public:
  // Errors: kInvalidArgument, naming the field and the value: as PlaceTensors(), CheckLayers() and
  // CheckRawBlocks(); the space has a codec.
  static absl::StatusOr<HostTensors> Of(const KvTensors& tensors, const SpaceSpec& spec);

  uint32_t slots() const { return geometry_.slots; }
  // Returns the memory of a block, in the order of the stored block; neighbours that touch are one
  // piece. REQUIRES: slot < slots().
  template <typename Span>  // Piece or ConstPiece.
  std::vector<Span> PiecesOf(uint32_t slot) const {
    std::vector<Span> pieces;
    for (const KvRun& run : geometry_.Runs(slot, {.first = 0, .count = geometry_.layers})) {
      pieces.push_back(Span(start_ + run.device_offset, run.bytes));
    }
    return pieces;
  }

 private:
  HostTensors(std::byte* start, KvGeometry geometry)
      : start_(start), geometry_(std::move(geometry)) {}

  std::byte* start_;  // First byte of the lowest tensor, from which the geometry counts.
  KvGeometry geometry_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_
