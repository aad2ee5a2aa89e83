// KvTensors is an inference engine's KV memory as the engine registers it: tensors on the device,
// and where in them the runs of a block are. It describes all layouts in use: per layer or across
// layers, keys and values apart or fused, tokens or heads first, latent rows (KvGeometry says what
// a run is).
//
// Use nothing of it before PlaceTensors() has checked it, and CheckLayers() and CheckRawBlocks()
// have compared it with the space; LayOut() does all of that for a device. Pure.
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
  uint32_t tensor = 0;  // Index in KvTensors::tensors.
  uint64_t offset = 0;  // Bytes from the tensor's start.
};

struct KvTensors {
  // Tensors, at the addresses that the copying device or thread uses; 1..kMaxAdoptedRanges, without
  // overlap.
  std::vector<std::span<std::byte>> tensors{};
  KvAxes axes = KvAxes::kApart;
  KvOrder order = KvOrder::kTokenHead;  // Order inside a run.
  uint32_t layers = 0;
  uint32_t slots = 0;  // Number of blocks in the tensors; the engine's block numbers are below it.
  uint64_t run_bytes = 0;     // Bytes of one layer and axis of one block.
  uint64_t block_stride = 0;  // Bytes from a block's run to the next block's.
  // Start of the runs of block 0, by layer, then axis (two of them for kApart).
  std::vector<TensorPlace> bases{};
};

// Tensors at their places in memory.
struct PlacedTensors {
  std::byte* start = nullptr;  // First byte of the lowest tensor.
  KvGeometry geometry{};       // Its bases are offsets from `start`.
  // Tensors, by offsets from `start`; ascending.
  std::vector<DeviceRange> registered{};
};

// Checks the tensors, and that every run of every block is inside one of them and overlaps no
// other. Errors: kInvalidArgument, naming the field and the value: as SortedRanges() and
// KvGeometry::Validate(); bases that name no tensor, or a place beyond its end.
absl::StatusOr<PlacedTensors> PlaceTensors(const KvTensors& tensors);

// Checks the properties that the space must have with any codec. Errors: kInvalidArgument, naming
// the field and the two values: the space is invalid, has any_length, or other layers.
absl::Status CheckLayers(const KvGeometry& geometry, const SpaceSpec& spec);

// Checks that blocks of this geometry are stored unchanged in the space. Errors: kInvalidArgument,
// naming the field and the two values: layout or block_bytes.
absl::Status CheckRawBlocks(const KvGeometry& geometry, KvOrder order, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_KV_TENSORS_H_
