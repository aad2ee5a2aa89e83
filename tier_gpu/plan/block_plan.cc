#include "tier_gpu/plan/block_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status WrongPlan(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("block plan: ", parts...));
}

absl::Status CheckPlanned(const BlockForm& form, std::span<const PlannedBlock> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].slot >= form.slots) {
      return WrongPlan("blocks[", i, "].slot is ", blocks[i].slot, "; must be below ", form.slots);
    }
    if (blocks[i].host == nullptr) return WrongPlan("blocks[", i, "].host is null; must be memory");
  }
  return absl::OkStatus();
}

// Returns the number of layers in one group of a job of `blocks` blocks.
uint32_t GroupLayers(const BlockForm& form, PlanOrder order, size_t blocks) {
  const uint32_t layers = form.rows.shape.layers;
  if (order == PlanOrder::kWhole || form.codec != Codec::kRaw) return layers;
  const uint64_t layer_bytes = form.block_bytes / layers * blocks;
  const uint64_t least = (kMinLayerGroupBytes + layer_bytes - 1) / layer_bytes;
  return static_cast<uint32_t>(std::min<uint64_t>(least, layers));
}

BlockPlan::Group GroupOf(const BlockForm& form, uint32_t first, uint32_t count) {
  const uint32_t layers = form.rows.shape.layers;
  BlockPlan::Group group = {.rows = form.rows, .stored_bytes = form.block_bytes};
  if (count == layers) return group;
  const size_t axes = form.rows.shape.axes;
  const std::span<const uint64_t> planes = form.rows.planes;
  const auto of_group = planes.subspan(first * axes, count * axes);
  group.rows.shape.layers = count;
  group.rows.planes.assign(of_group.begin(), of_group.end());
  group.stored_bytes = form.block_bytes / layers * count;
  return group;
}

// Returns how many blocks of the group fit into a batch.
size_t BatchBlocks(const BlockPlan::Group& group) {
  const size_t moves = RowMoves::Of(group.rows).pieces.size();
  const uint64_t by_bytes = kMaxBlockBatchBytes / std::max<uint64_t>(group.stored_bytes, 1);
  const size_t most = std::min<uint64_t>({kMaxBatchBlocks, kMaxBlockMoves / moves, by_bytes});
  return std::max<size_t>(most, 1);
}

}  // namespace

BlockBatch BlockPlan::BatchOf(size_t batch, CopyDirection direction) const {
  KVT_CHECK(batch < batches.size());
  const Batch& planned = batches[batch];
  const Group& group = groups[planned.group];
  return {.direction = direction,
          .geometry = &group.rows,
          .codec = codec,
          .block_bytes = group.stored_bytes,
          .blocks = std::span(transfers).subspan(planned.begin, planned.end - planned.begin),
          .summed = groups.size() == 1};
}

absl::StatusOr<BlockPlan> PlanBlocks(const BlockForm& form, PlanOrder order,
                                     std::span<const PlannedBlock> blocks) {
  KVT_RETURN_IF_ERROR(CheckPlanned(form, blocks));
  BlockPlan plan = {.codec = form.codec};
  if (blocks.empty()) return plan;
  const uint32_t layers = form.rows.shape.layers;
  const uint32_t group_layers = GroupLayers(form, order, blocks.size());
  uint64_t host_offset = 0;
  for (uint32_t first = 0; first < layers;) {
    // The last group takes the remaining layers.
    const uint32_t left = layers - first;
    const uint32_t count = left < 2 * group_layers ? left : group_layers;
    const BlockPlan::Group& group = plan.groups.emplace_back(GroupOf(form, first, count));
    const size_t begin = plan.transfers.size();
    for (const PlannedBlock& block : blocks) {
      plan.transfers.push_back(
          {.device_offset = block.slot * form.slot_stride, .host = block.host + host_offset});
    }
    const size_t end = plan.transfers.size();
    const size_t fit = BatchBlocks(group);
    for (size_t at = begin; at < end; at += fit) {
      plan.batches.push_back({.group = plan.groups.size() - 1,
                              .begin = at,
                              .end = std::min(at + fit, end),
                              .layers_complete = first});
    }
    first += count;
    host_offset += group.stored_bytes;
    plan.batches.back().layers_complete = first;
  }
  return plan;
}

}  // namespace kvtier
