#include "bench/device_kv.h"

#include <array>

#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier::bench {

absl::StatusOr<std::unique_ptr<DeviceKv>> DeviceKv::Open(const std::string& device, uint32_t slots,
                                                         uint32_t job_blocks) {
  std::unique_ptr<DeviceKv> engine(new DeviceKv(slots, job_blocks));
  KVT_ASSIGN_OR_RETURN(engine->device_, OpenDevice(device, &engine->clock_));
  const auto region = [&engine](uint64_t bytes) {
    return engine->device_->CreateRegion({.handle_bytes = bytes, .max_handles = 1}, 1);
  };
  KVT_ASSIGN_OR_RETURN(engine->region_, region(slots * kBlockBytes));
  KVT_ASSIGN_OR_RETURN(engine->whole_, region(job_blocks * kBlockBytes));
  KVT_RETURN_IF_ERROR(engine->device_->Pin(engine->host()));
  return engine;
}

DeviceKv::~DeviceKv() {
  // Nothing is pinned if Open() failed.
  if (device_ != nullptr) device_->Unpin(host()).IgnoreError();
}

KvTensors DeviceKv::tensors() const {
  KvTensors tensors = {.axes = KvAxes::kApart,
                       .layers = kLayers,
                       .slots = slots_,
                       .run_bytes = kPieceBytes,
                       .block_stride = kPieceBytes};
  for (uint32_t piece = 0; piece < kPieces; ++piece) {
    tensors.tensors.emplace_back(region_->address() + OffsetOf(piece, 0), slots_ * kPieceBytes);
    tensors.bases.push_back({.tensor = piece});
  }
  return tensors;
}

SpaceSpec DeviceKv::Space() {
  return {.model = "gpu-bench",
          .weights_digest = "none",
          .dtype = "bfloat16",
          .layout = SpaceLayout(KvAxes::kApart, KvOrder::kTokenHead),
          .layers = kLayers,
          .kv_heads = kHeads,
          .head_dim = kHeadDim,
          .tokens_per_block = kTokens,
          .block_bytes = kBlockBytes};
}

absl::Status DeviceKv::Copy(CopyDirection direction, std::span<const uint32_t> slots) {
  KVT_CHECK(slots.size() * kBlockBytes <= host().size());
  std::byte* host = host_.bytes().data();
  std::vector<CopySegment> segments;
  for (const uint32_t slot : slots) {
    for (uint32_t piece = 0; piece < kPieces; ++piece, host += kPieceBytes) {
      segments.push_back(
          {.device_offset = OffsetOf(piece, slot), .host = host, .bytes = kPieceBytes});
    }
  }
  for (size_t first = 0; first < segments.size(); first += kMaxCopySegments) {
    const size_t count = std::min(kMaxCopySegments, segments.size() - first);
    KVT_RETURN_IF_ERROR(
        CopyBatch(direction, region_.get(), std::span(segments).subspan(first, count)));
  }
  return absl::OkStatus();
}

absl::Status DeviceKv::CopyWhole(CopyDirection direction, size_t blocks) {
  KVT_CHECK(blocks * kBlockBytes <= host().size());
  const CopySegment whole = {.host = host_.bytes().data(), .bytes = blocks * kBlockBytes};
  return CopyBatch(direction, whole_.get(), {&whole, 1});
}

absl::Status DeviceKv::CopyBatch(CopyDirection direction, DeviceRegion* region,
                                 std::span<const CopySegment> segments) {
  KVT_RETURN_IF_ERROR(
      device_->Submit({.direction = direction, .region = region, .segments = segments}).status());
  std::array<Completion, 1> ended;
  while (device_->Poll(ended) == 0) {
  }
  return ended[0].status;
}

}  // namespace kvtier::bench
