// KvGeometry says where in device memory the bytes of a block are. A block has one run
// for each layer and axis; a run is contiguous, and the same run of neighbouring slots
// is one stride apart. So all layouts in use are told apart by their bases and strides: an
// engine's tensors per layer, its tensors across layers, keys and values in two tensors,
// interleaved by block, or fused in rows, and latent attention.
//
// In host memory a block is its runs one behind the other, [layer][axis], with no room
// between: that is the order of every tier and of the wire. Inside a run the bytes stay
// as the engine has them. A raw copy moves runs and knows nothing of tokens and heads,
// so token-major and head-major blocks are different blocks: SpaceLayout() is part of
// the space and so of every BlockKey.
//
// A value. Pure. What an engine registers is believed only after Validate().
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
  kApart,   // A layer has two runs a block: keys, then values.
  kFused,   // One: each row has its keys and its values.
  kLatent,  // One: rows of latent attention, opaque, maybe with their scales behind.
};

// Of the rows inside a run; latent rows have tokens only.
enum class KvOrder : uint8_t { kTokenHead, kHeadToken };

// SpaceSpec::layout of blocks that are copied raw: the axes, outermost first.
std::string SpaceLayout(KvAxes axes, KvOrder order);

// Device memory that was registered and may be touched. Offsets are those of
// CopySegment::device_offset.
struct DeviceRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool operator==(const DeviceRange&) const = default;
};

// One piece of a block, contiguous on both sides.
struct KvRun {
  uint64_t device_offset = 0;
  uint64_t bytes = 0;
  bool operator==(const KvRun&) const = default;
};

inline constexpr uint32_t kMaxGeometryLayers = 4096;  // As SpaceSpec::layers.

struct KvGeometry {
  KvAxes axes = KvAxes::kApart;
  uint32_t layers = 0;        // 1..kMaxGeometryLayers.
  uint32_t slots = 0;         // Blocks on the device; 1 or more.
  uint64_t run_bytes = 0;     // Of one layer and axis of one block; 1 or more.
  uint64_t block_stride = 0;  // From a slot to the next; at least run_bytes.
  // Of slot 0, by layer, then axis: layers * axis_count() of them.
  std::vector<uint64_t> bases{};

  // Every run of every slot is inside one of `registered`, and no two overlap. Errors:
  // kInvalidArgument, naming the field and its value. O(tensors * registered), and
  // O(tensors^2) where tensors interleave.
  absl::Status Validate(std::span<const DeviceRange> registered) const;

  uint32_t axis_count() const { return axes == KvAxes::kApart ? 2 : 1; }
  uint64_t layer_bytes() const { return axis_count() * run_bytes; }
  uint64_t block_bytes() const { return layers * layer_bytes(); }
  // From the first byte of slot 0's run to the end of the last slot's.
  uint64_t tensor_bytes() const { return (slots - 1) * block_stride + run_bytes; }

  // Returns the runs of `slot`, in the order of the host's block; neighbours that are adjacent on
  // the device are one. REQUIRES: Validate() was OK; slot < slots.
  std::vector<KvRun> Runs(uint32_t slot) const;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_GEOMETRY_H_
