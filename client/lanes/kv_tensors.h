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
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/space.h"
#include "tier_gpu/plan/block_plan.h"
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

// What becomes of blocks on the way: nullopt, they are stored as they are; otherwise they
// are encoded and decoded by the lane, whatever the order of tokens and heads.
using StoredForm = std::optional<StoredBlocks>;

// The same as the planner takes it: offsets from the lowest tensor's first byte.
struct LaidOut {
  KvGeometry geometry{};
  std::vector<uint64_t> borders{};  // Where two tensors touch; ascending.
  StoredForm stored{};
};

// How the space stores blocks of this geometry. Errors: kInvalidArgument, naming the
// space's field and the two values: layers, of raw blocks layout and block_bytes, of
// encoded ones what SpaceCodec::Of() and PlanBlocks() have.
absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec);

// Errors: kInvalidArgument, naming the field and the value: as StoredAs(),
// KvGeometry::Validate() and AdoptedRegion::Of(); bases that name no tensor, or a place
// behind its end.
absl::StatusOr<LaidOut> LayOut(const KvTensors& tensors, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_KV_TENSORS_H_
