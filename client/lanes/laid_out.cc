#include "client/lanes/laid_out.h"

#include <utility>

#include "core/status_macros.h"

namespace kvtier {

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
