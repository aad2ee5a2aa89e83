#include "client/lanes/kv_tensors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "tier_gpu/device/adopted_ranges.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("tensors: ", parts...));
}

}  // namespace

absl::StatusOr<PlacedTensors> PlaceTensors(const KvTensors& tensors) {
  KVT_ASSIGN_OR_RETURN(const std::vector<std::span<std::byte>> sorted,
                       SortedRanges(tensors.tensors));
  const uint64_t start = AddressOf(sorted.front());
  PlacedTensors placed = {.start = sorted.front().data(),
                          .geometry = {.axes = tensors.axes,
                                       .layers = tensors.layers,
                                       .slots = tensors.slots,
                                       .run_bytes = tensors.run_bytes,
                                       .block_stride = tensors.block_stride}};
  placed.geometry.bases.reserve(tensors.bases.size());
  for (size_t i = 0; i < tensors.bases.size(); ++i) {
    const TensorPlace& base = tensors.bases[i];
    if (base.tensor >= tensors.tensors.size()) {
      return Wrong("bases[", i, "].tensor is ", base.tensor, "; must be below ",
                   tensors.tensors.size());
    }
    const std::span<std::byte> tensor = tensors.tensors[base.tensor];
    if (base.offset >= tensor.size()) {
      return Wrong("bases[", i, "].offset is ", base.offset, "; must be below the tensor's ",
                   tensor.size(), " bytes");
    }
    placed.geometry.bases.push_back(AddressOf(tensor) - start + base.offset);
  }
  placed.registered.reserve(sorted.size());
  for (const std::span<std::byte> tensor : sorted) {
    placed.registered.push_back({.offset = AddressOf(tensor) - start, .bytes = tensor.size()});
  }
  KVT_RETURN_IF_ERROR(placed.geometry.Validate(placed.registered));
  return placed;
}

absl::Status CheckLayers(const KvGeometry& geometry, const SpaceSpec& spec) {
  KVT_RETURN_IF_ERROR(spec.Validate());
  if (spec.any_length) {
    return Wrong(
        "any_length of the space is true; must be false, as lanes move blocks of one length");
  }
  if (spec.layers != geometry.layers) {
    return Wrong("layers is ", geometry.layers, "; must be the space's, ", spec.layers);
  }
  return absl::OkStatus();
}

absl::Status CheckRawBlocks(const KvGeometry& geometry, KvOrder order, const SpaceSpec& spec) {
  const std::string layout = SpaceLayout(geometry.axes, order);
  if (spec.layout != layout) {
    return Wrong("layout is \"", layout, "\"; must be the space's, \"", spec.layout, "\"");
  }
  // The product of a 32-bit and a 64-bit factor may wrap; the division then shows a difference.
  if (geometry.layers == 0 || spec.block_bytes % geometry.layers != 0 ||
      spec.block_bytes / geometry.layers / geometry.axis_count() != geometry.run_bytes ||
      spec.block_bytes != geometry.block_bytes()) {
    return Wrong("run_bytes is ", geometry.run_bytes, ", ", geometry.axis_count(),
                 " to a layer; must make the space's block_bytes, ", spec.block_bytes, ", in ",
                 geometry.layers, " layers");
  }
  return absl::OkStatus();
}

}  // namespace kvtier
