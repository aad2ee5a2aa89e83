#include "client/lanes/laid_out.h"

#include <utility>

#include "core/space_codec.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec) {
  KVT_RETURN_IF_ERROR(CheckLayers(geometry, spec));
  if (spec.codec == kRawCodec) {
    KVT_RETURN_IF_ERROR(CheckRawBlocks(geometry, order, spec));
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
  KVT_ASSIGN_OR_RETURN(PlacedTensors placed, PlaceTensors(tensors));
  LaidOut laid_out = {.geometry = std::move(placed.geometry)};
  KVT_ASSIGN_OR_RETURN(laid_out.stored, StoredAs(laid_out.geometry, tensors.order, spec));
  for (size_t i = 1; i < placed.registered.size(); ++i) {
    const DeviceRange& below = placed.registered[i - 1];
    if (below.offset + below.bytes == placed.registered[i].offset) {
      laid_out.borders.push_back(placed.registered[i].offset);
    }
  }
  return laid_out;
}

}  // namespace kvtier
