#include "client/lanes/kv_tensors.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/space_codec.h"
#include "core/status_macros.h"
#include "tier_gpu/device/adopted_region.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("tensors: ", parts...));
}

uint64_t AddressOf(std::span<std::byte> tensor) {
  return reinterpret_cast<uint64_t>(tensor.data());
}

absl::Status CheckRaw(const KvGeometry& geometry, KvOrder order, const SpaceSpec& spec) {
  const std::string layout = SpaceLayout(geometry.axes, order);
  if (spec.layout != layout) {
    return Wrong("layout is \"", layout, "\", the space's is \"", spec.layout, "\"");
  }
  // Two factors of 32 and 64 bits may pass 64 bits; what they come to is then not equal.
  if (geometry.layers == 0 || spec.block_bytes % geometry.layers != 0 ||
      spec.block_bytes / geometry.layers / geometry.axis_count() != geometry.run_bytes ||
      spec.block_bytes != geometry.block_bytes()) {
    return Wrong("run_bytes is ", geometry.run_bytes, ", ", geometry.axis_count(),
                 " to a layer; the space's block_bytes, ", spec.block_bytes, ", are ",
                 geometry.layers, " layers");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec) {
  KVT_RETURN_IF_ERROR(spec.Validate());
  if (spec.any_length) {
    return Wrong("the space has any_length; lanes move blocks of one length");
  }
  if (spec.layers != geometry.layers) {
    return Wrong("layers is ", geometry.layers, ", the space's is ", spec.layers);
  }
  if (spec.codec == kRawCodec) {
    KVT_RETURN_IF_ERROR(CheckRaw(geometry, order, spec));
    return StoredForm();
  }
  KVT_ASSIGN_OR_RETURN(const SpaceCodec codec, SpaceCodec::Of(spec));
  const StoredBlocks stored = {.shape = codec.shape(),
                               .row_bytes = 2 * uint64_t{spec.head_dim},  // bf16.
                               .order = order,
                               .codec = codec.codec(),
                               .block_bytes = spec.block_bytes};
  // Says what of the two does not fit.
  KVT_RETURN_IF_ERROR(PlanBlocks(geometry, stored, {}).status());
  return StoredForm(stored);
}

absl::StatusOr<LaidOut> LayOut(const KvTensors& tensors, const SpaceSpec& spec) {
  // Says what is wrong with the ranges, and is given up at once.
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<AdoptedRegion> region,
                       AdoptedRegion::Of(tensors.tensors, nullptr));
  const auto start = reinterpret_cast<uint64_t>(region->address());
  LaidOut laid_out = {.geometry = {.axes = tensors.axes,
                                   .layers = tensors.layers,
                                   .slots = tensors.slots,
                                   .run_bytes = tensors.run_bytes,
                                   .block_stride = tensors.block_stride}};
  laid_out.geometry.bases.reserve(tensors.bases.size());
  for (size_t i = 0; i < tensors.bases.size(); ++i) {
    const TensorPlace& base = tensors.bases[i];
    if (base.tensor >= tensors.tensors.size()) {
      return Wrong("bases[", i, "].tensor is ", base.tensor, " of ", tensors.tensors.size());
    }
    const std::span<std::byte> tensor = tensors.tensors[base.tensor];
    if (base.offset >= tensor.size()) {
      return Wrong("bases[", i, "].offset is ", base.offset, " in a tensor of ", tensor.size(),
                   " bytes");
    }
    laid_out.geometry.bases.push_back(AddressOf(tensor) - start + base.offset);
  }
  std::vector<DeviceRange> registered;
  registered.reserve(tensors.tensors.size());
  for (const std::span<std::byte> tensor : tensors.tensors) {
    registered.push_back({.offset = AddressOf(tensor) - start, .bytes = tensor.size()});
  }
  KVT_RETURN_IF_ERROR(laid_out.geometry.Validate(registered));
  KVT_ASSIGN_OR_RETURN(laid_out.stored, StoredAs(laid_out.geometry, tensors.order, spec));
  std::ranges::sort(registered, {}, &DeviceRange::offset);
  for (size_t i = 1; i < registered.size(); ++i) {
    const DeviceRange& below = registered[i - 1];
    if (below.offset + below.bytes == registered[i].offset) {
      laid_out.borders.push_back(registered[i].offset);
    }
  }
  return laid_out;
}

}  // namespace kvtier
