// KvTensors is an inference engine's KV memory as the engine registers it: tensors on the
// device, and where in them the runs of a block are. All layouts in use are told so:
// per layer or across layers, keys and values apart or fused, tokens or heads first,
// latent rows (KvGeometry says what a run is).
//
// Nothing of it is believed before LayOut() has checked it, against the tensors and
// against the space. Pure.
#ifndef KVTIER_CLIENT_LANES_KV_TENSORS_H_
#define KVTIER_CLIENT_LANES_KV_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/space.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

struct TensorPlace {
  uint32_t tensor = 0;  // Of KvTensors::tensors.
  uint64_t offset = 0;  // From the tensor's first byte.
};

struct KvTensors {
  // Addresses as the device sees them; 1..kMaxAdoptedRanges, which do not overlap.
  std::vector<std::span<std::byte>> tensors{};
  KvAxes axes = KvAxes::kApart;
  KvOrder order = KvOrder::kTokenHead;  // Inside a run.
  uint32_t layers = 0;
  uint32_t slots = 0;         // Blocks that the tensors hold; the engine's block numbers.
  uint64_t run_bytes = 0;     // Of one layer and axis of one block.
  uint64_t block_stride = 0;  // Bytes from a block's run to the next block's.
  // Where the run of block 0 begins, by layer, then axis (two of them for kApart).
  std::vector<TensorPlace> bases{};
};

// The same as the planner takes it: offsets from the lowest tensor's first byte.
struct LaidOut {
  KvGeometry geometry{};
  std::vector<uint64_t> borders{};  // Where two tensors touch; ascending.
};

// Whether blocks of this geometry are raw blocks of the space. Errors: kInvalidArgument,
// naming the space's field and the two values: codec, layers, layout, block_bytes.
absl::Status CheckSpace(const KvGeometry& geometry, KvOrder order, const SpaceSpec& spec);

// Errors: kInvalidArgument, naming the field and the value: as CheckSpace(),
// KvGeometry::Validate() and AdoptedRegion::Of(); bases that name no tensor, or a place
// behind its end.
absl::StatusOr<LaidOut> LayOut(const KvTensors& tensors, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_KV_TENSORS_H_
