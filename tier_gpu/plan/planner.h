// PlanCopies says which segments move the blocks of a job, in which batches, and which
// path each batch takes. Pure: no device, no clock, the same answer for the same words.
//
// Segments: each is contiguous on both sides. A block's runs that are adjacent on the
// device are one segment, and so are neighbours of the job that are adjacent on both
// sides, upwards or downwards, up to kMaxCopyBytes. None is empty, none crosses the
// border of two pinned chunks, of two tensors or of two handles.
//
// Batches: up to kMaxCopySegments segments and kMaxCopyBytes, or one segment that is
// longer. They are for one lane, in their order.
#ifndef KVTIER_TIER_GPU_PLAN_PLANNER_H_
#define KVTIER_TIER_GPU_PLAN_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/device/link_model.h"
#include "tier_gpu/plan/geometry.h"
#include "tier_gpu/plan/path_choice.h"

namespace kvtier {

// Runs of one plan, before neighbours are joined: 24 MiB of segments.
inline constexpr size_t kMaxPlanRuns = size_t{1} << 20;
// Least bytes of a group, the layers that are waited for together: with fewer, the calls would
// take most of the time.
inline constexpr uint64_t kMinLayerGroupBytes = uint64_t{2} << 20;
// A group grows while the link model says that the job would take longer than this many times the
// time of the whole job in one piece, and while at least kMinLayerGroups remain.
inline constexpr double kMaxLayerWiseTime = 1.05;
inline constexpr uint32_t kMinLayerGroups = 4;

// One block between a slot and host memory of the geometry's block_bytes().
struct PlannedBlock {
  uint32_t slot = 0;
  std::byte* host = nullptr;
};

enum class PlanOrder : uint8_t {
  kWhole,      // Block by block.
  kLayerWise,  // Layer by layer, so that compute may begin with the first.
};

// Where a copy engine may not cross: host memory is pinned from `base` on in chunks.
struct PinnedChunks {
  std::byte* base = nullptr;  // At or below every host address of the job.
  uint64_t chunk_bytes = 0;   // A multiple of 4096; 0: in one piece.
};

struct CopyRequest {
  std::span<const PlannedBlock> blocks{};
  CopyDirection direction = CopyDirection::kHostToDevice;
  PlanOrder order = PlanOrder::kWhole;
  LanePaths paths = LanePaths::kAll;
  PinnedChunks chunks{};
  // Offsets on the device, ascending, that no segment crosses: where two tensors or two handles
  // touch, which may be two allocations.
  std::span<const uint64_t> borders{};
};

struct PlannedBatch {
  CopyPath path = CopyPath::kBatch;
  size_t first_segment = 0;  // Index in CopyPlan::segments.
  size_t segments = 0;
  uint64_t bytes = 0;
  // When this batch and those before it have ended, so many layers, from the first on,
  // are complete for every block. Only ever more; of the last batch: all.
  uint32_t layers_complete = 0;
};

struct CopyPlan {
  std::vector<CopySegment> segments{};
  std::vector<PlannedBatch> batches{};

  std::span<const CopySegment> SegmentsOf(const PlannedBatch& batch) const {
    return std::span(segments).subspan(batch.first_segment, batch.segments);
  }
};

// No blocks, no batches. REQUIRES: geometry.Validate() was OK; host memory of two blocks
// does not overlap. Errors: kInvalidArgument, a block's slot does not exist, or is there
// twice in a job toward the device, or its host memory is null, below the chunks' base
// or past 64 bits, or chunk_bytes is wrong; kResourceExhausted, more than kMaxPlanRuns (plan in
// parts).
absl::StatusOr<CopyPlan> PlanCopies(const KvGeometry& geometry, const CopyRequest& request);

// Returns how long a whole plan takes in one lane, by a link model.
absl::Duration PredictPlan(const LinkModel& link, CopyDirection direction, const CopyPlan& plan);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_PLANNER_H_
