// KvGeometry says where in device memory the bytes of a block are. A block has one run for each
// layer and axis; a run is contiguous, and the same run of neighbouring slots is one stride apart.
// Bases and strides describe all layouts in use: an engine's tensors per layer, its tensors across
// layers, keys and values in two tensors, interleaved by block, or fused in rows, and latent
// attention.
//
// In host memory a block is its runs one after another, [layer][axis], without gaps; every tier and
// the wire use that order. Inside a run the bytes stay as the engine has them. A raw copy moves
// runs and knows nothing of tokens and heads, so token-major and head-major blocks are different
// blocks: SpaceLayout() is part of the space and so of every BlockKey.
//
// KvGeometry is a value type. Its methods are pure. Call Validate() on a geometry from an engine
// before any other use.
#ifndef KVTIER_TIER_GPU_PLAN_GEOMETRY_H_
#define KVTIER_TIER_GPU_PLAN_GEOMETRY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kvtier {

enum class KvAxes : uint8_t {
  kApart,   // Two runs for each layer of a block: keys, then values.
  kFused,   // One run: each row has its keys and its values.
  kLatent,  // One run: rows of latent attention, opaque, maybe followed by their scales.
};

// Order of the rows inside a run; latent rows have tokens only.
enum class KvOrder : uint8_t { kTokenHead, kHeadToken };

// Returns SpaceSpec::layout of blocks that are copied raw: the axes, outermost first.
std::string SpaceLayout(KvAxes axes, KvOrder order);

// Device memory that was registered and may be touched. Offsets count as in
// CopySegment::device_offset.
struct DeviceRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const DeviceRange&) const = default;
};

// KvRun is one piece of a block, contiguous on both sides.
struct KvRun {
  uint64_t device_offset = 0;
  uint64_t bytes = 0;
  bool operator==(const KvRun&) const = default;
};

inline constexpr uint32_t kMaxGeometryLayers = 4096;  // Same limit as SpaceSpec::layers.

struct KvGeometry {
  KvAxes axes = KvAxes::kApart;
  uint32_t layers = 0;        // 1..kMaxGeometryLayers.
  uint32_t slots = 0;         // Number of blocks on the device; 1 or more.
  uint64_t run_bytes = 0;     // Bytes of one layer and axis of one block; 1 or more.
  uint64_t block_stride = 0;  // Bytes between neighbouring slots; at least run_bytes.
  // Offsets of the runs of slot 0, by layer, then axis: layers * axis_count() of them.
  std::vector<uint64_t> bases{};

  // Checks that every run of every slot lies inside one of `registered`, and that no two runs
  // overlap. Errors: kInvalidArgument, naming the field and its value. O(tensors * registered), and
  // O(tensors^2) where tensors interleave.
  absl::Status Validate(std::span<const DeviceRange> registered) const;

  uint32_t axis_count() const { return axes == KvAxes::kApart ? 2 : 1; }
  uint64_t layer_bytes() const { return axis_count() * run_bytes; }
  uint64_t block_bytes() const { return layers * layer_bytes(); }
  // Returns the bytes from the start of slot 0's run to the end of the last slot's.
  uint64_t tensor_bytes() const { return (slots - 1) * block_stride + run_bytes; }

  // Returns the runs of `slot`, in the order of the block in host memory; runs that are adjacent on
  // the device are merged. REQUIRES: Validate() was OK; slot < slots.
  std::vector<KvRun> Runs(uint32_t slot) const;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_GEOMETRY_H_
