#include "tier_gpu/plan/planner.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status Wrong(size_t block, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("plan: block ", block, ": ", parts...));
}

absl::Status CheckBlocks(const KvGeometry& geometry, const CopyRequest& request) {
  const auto base = reinterpret_cast<uintptr_t>(request.chunks.base);
  const uint64_t bytes = geometry.block_bytes();
  if (request.chunks.chunk_bytes % kBlockAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan: chunk_bytes is ", request.chunks.chunk_bytes, ", no multiple of ", kBlockAlignment));
  }
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const PlannedBlock& block = request.blocks[i];
    const auto host = reinterpret_cast<uintptr_t>(block.host);
    if (block.slot >= geometry.slots) {
      return Wrong(i, "slot is ", block.slot, " of ", geometry.slots);
    }
    if (block.host == nullptr) return Wrong(i, "host is null");
    if (host > std::numeric_limits<uintptr_t>::max() - bytes) {
      return Wrong(i, "host is ", host, ", with ", bytes, " bytes past 64 bits");
    }
    if (host < base) return Wrong(i, "host is ", host, ", below the chunks' base, ", base);
  }
  return absl::OkStatus();
}

// Two sources for one destination have no order.
absl::Status CheckDestinations(const KvGeometry& geometry, const CopyRequest& request) {
  if (request.direction == CopyDirection::kDeviceToHost) return absl::OkStatus();
  std::vector<bool> taken(geometry.slots);
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    const uint32_t slot = request.blocks[i].slot;
    if (taken[slot]) return Wrong(i, "slot is ", slot, ", as of a block before it");
    taken[slot] = true;
  }
  return absl::OkStatus();
}

// Bytes from `host` to the end of its chunk.
uint64_t LeftInChunk(const PinnedChunks& chunks, const std::byte* host) {
  if (chunks.chunk_bytes == 0) return std::numeric_limits<uint64_t>::max();
  const uint64_t offset =
      reinterpret_cast<uintptr_t>(host) - reinterpret_cast<uintptr_t>(chunks.base);
  return chunks.chunk_bytes - offset % chunks.chunk_bytes;
}

// Bytes from `offset` to the next border on the device.
uint64_t LeftToBorder(std::span<const uint64_t> borders, uint64_t offset) {
  const auto next = std::ranges::upper_bound(borders, offset);
  return next == borders.end() ? std::numeric_limits<uint64_t>::max() : *next - offset;
}

// Whether `segment`, being adjacent, became part of `*grown`.
bool Join(const CopyRequest& request, const CopySegment& segment, CopySegment* grown) {
  if (grown->bytes + segment.bytes > kMaxCopyBytes) return false;
  const bool above = segment.host == grown->host + grown->bytes &&
                     segment.device_offset == grown->device_offset + grown->bytes;
  const bool below = grown->host == segment.host + segment.bytes &&
                     grown->device_offset == segment.device_offset + segment.bytes;
  if (!above && !below) return false;
  const CopySegment& lower = above ? *grown : segment;
  const uint64_t bytes = grown->bytes + segment.bytes;
  if (LeftInChunk(request.chunks, lower.host) < bytes ||
      LeftToBorder(request.borders, lower.device_offset) < bytes) {
    return false;
  }
  *grown = {.device_offset = lower.device_offset, .host = lower.host, .bytes = bytes};
  return true;
}

// Puts a piece behind the segments, joined with what is adjacent since `first`; what has
// grown may have become the neighbour of the one before it.
void AppendPiece(const CopyRequest& request, CopySegment piece, size_t first,
                 std::vector<CopySegment>* segments) {
  while (segments->size() > first && Join(request, segments->back(), &piece)) segments->pop_back();
  segments->push_back(piece);
}

void Append(const CopyRequest& request, CopySegment segment, size_t first,
            std::vector<CopySegment>* segments) {
  while (segment.bytes > 0) {
    CopySegment piece = segment;
    piece.bytes = std::min({segment.bytes, LeftInChunk(request.chunks, segment.host),
                            LeftToBorder(request.borders, segment.device_offset)});
    segment.device_offset += piece.bytes;
    segment.host += piece.bytes;
    segment.bytes -= piece.bytes;
    AppendPiece(request, piece, first, segments);
  }
}

// So many layers have kMinLayerGroupBytes.
uint32_t LeastGroup(const KvGeometry& geometry, const CopyRequest& request) {
  const uint64_t layer_bytes = geometry.layer_bytes() * request.blocks.size();
  const uint64_t least = (kMinLayerGroupBytes + layer_bytes - 1) / layer_bytes;
  return static_cast<uint32_t>(std::min<uint64_t>(least, geometry.layers));
}

// The layers that are waited for together: `count`, and what is left over with the last.
std::vector<LayerRange> LayerGroups(uint32_t layers, uint32_t count) {
  std::vector<LayerRange> groups;
  for (uint32_t first = 0; first < layers; first += groups.back().count) {
    const uint32_t left = layers - first;
    groups.push_back({.first = first, .count = left < 2 * count ? left : count});
  }
  return groups;
}

// Cuts the segments from `first` on into batches.
void Cut(size_t first, CopyPlan* plan) {
  const std::vector<CopySegment>& segments = plan->segments;
  while (first < segments.size()) {
    PlannedBatch batch = {.first_segment = first, .segments = 1, .bytes = segments[first].bytes};
    for (++first; first < segments.size() && batch.segments < kMaxCopySegments &&
                  batch.bytes + segments[first].bytes <= kMaxCopyBytes;
         ++first) {
      ++batch.segments;
      batch.bytes += segments[first].bytes;
    }
    plan->batches.push_back(batch);
  }
}

// By the mean size of a batch's segments: one of mixed sizes is near enough to it.
void ChoosePaths(const CopyRequest& request, CopyPlan* plan) {
  CopyJob job = {.direction = request.direction, .segments = plan->segments.size()};
  for (PlannedBatch& batch : plan->batches) {
    job.segment_bytes = batch.bytes / batch.segments;
    batch.path = ChoosePath(job, request.paths);
  }
}

// What the job takes whole, as if no two blocks were neighbours.
absl::Duration PredictWhole(const LinkModel& link, const KvGeometry& geometry,
                            const CopyRequest& request) {
  const size_t runs = geometry.Runs(0, {.first = 0, .count = geometry.layers}).size();
  const CopyJob job = {.direction = request.direction,
                       .segment_bytes = std::max<uint64_t>(geometry.block_bytes() / runs, 1),
                       .segments = request.blocks.size() * runs};
  const CopyPath path = ChoosePath(job, request.paths);
  const size_t most = std::clamp<size_t>(kMaxCopyBytes / job.segment_bytes, 1, kMaxCopySegments);
  std::vector<CopyShape> shapes;
  for (size_t left = job.segments; left > 0; left -= shapes.back().segments) {
    const size_t segments = std::min(left, most);
    shapes.push_back({.direction = request.direction,
                      .path = path,
                      .segments = segments,
                      .bytes = segments * job.segment_bytes});
  }
  return link.PredictLane(shapes);
}

// The plan whose groups have `group` layers. REQUIRES: the request was checked.
absl::StatusOr<CopyPlan> PlanGroups(const KvGeometry& geometry, const CopyRequest& request,
                                    uint32_t group_layers) {
  CopyPlan plan;
  const std::vector<LayerRange> groups = LayerGroups(geometry.layers, group_layers);
  std::vector<std::vector<KvRun>> runs;  // Of slot 0, by group.
  runs.reserve(groups.size());
  size_t runs_of_block = 0;
  for (const LayerRange& group : groups) {
    runs.push_back(geometry.Runs(0, group));
    runs_of_block += runs.back().size();
  }
  if (request.blocks.size() > kMaxPlanRuns / runs_of_block) {
    return absl::ResourceExhaustedError(absl::StrCat("plan: ", request.blocks.size(), " blocks of ",
                                                     runs_of_block, " runs, more than ",
                                                     kMaxPlanRuns));
  }
  plan.segments.reserve(request.blocks.size() * runs_of_block);
  for (size_t group = 0; group < groups.size(); ++group) {
    const size_t first = plan.segments.size();
    for (const PlannedBlock& block : request.blocks) {
      const uint64_t slot_offset = block.slot * geometry.block_stride;
      for (const KvRun& run : runs[group]) {
        const CopySegment segment = {.device_offset = slot_offset + run.device_offset,
                                     .host = block.host + run.host_offset,
                                     .bytes = run.bytes};
        Append(request, segment, first, &plan.segments);
      }
    }
    Cut(first, &plan);
    const LayerRange& layers = groups[group];
    plan.batches.back().layers_complete = layers.first + layers.count;
  }
  // Batches inside a group complete no further layer.
  uint32_t complete = 0;
  for (PlannedBatch& batch : plan.batches) {
    complete = std::max(complete, batch.layers_complete);
    batch.layers_complete = complete;
  }
  ChoosePaths(request, &plan);
  return plan;
}

}  // namespace

absl::StatusOr<CopyPlan> PlanCopies(const KvGeometry& geometry, const CopyRequest& request) {
  if (request.blocks.empty()) return CopyPlan{};
  KVT_RETURN_IF_ERROR(CheckBlocks(geometry, request));
  KVT_RETURN_IF_ERROR(CheckDestinations(geometry, request));
  const auto plan_whole = [&] { return PlanGroups(geometry, request, geometry.layers); };
  if (request.order == PlanOrder::kWhole) return plan_whole();
  const LinkModel link = LinkModel::Pcie5();
  const absl::Duration longest = kMaxLayerWiseTime * PredictWhole(link, geometry, request);
  for (uint32_t group = LeastGroup(geometry, request);; group *= 2) {
    if (group >= geometry.layers) return plan_whole();
    KVT_ASSIGN_OR_RETURN(CopyPlan plan, PlanGroups(geometry, request, group));
    const bool last = 2 * group > geometry.layers / kMinLayerGroups;
    if (last || PredictPlan(link, request.direction, plan) <= longest) return plan;
  }
}

absl::Duration PredictPlan(const LinkModel& link, CopyDirection direction, const CopyPlan& plan) {
  std::vector<CopyShape> shapes;
  shapes.reserve(plan.batches.size());
  for (const PlannedBatch& batch : plan.batches) {
    shapes.push_back({.direction = direction,
                      .path = batch.path,
                      .segments = batch.segments,
                      .bytes = batch.bytes});
  }
  return link.PredictLane(shapes);
}

}  // namespace kvtier
