#include "client/host_lanes/host_tensors.h"

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<HostTensors> HostTensors::Of(const KvTensors& tensors, const SpaceSpec& spec) {
  KVT_ASSIGN_OR_RETURN(PlacedTensors placed, PlaceTensors(tensors));
  KVT_RETURN_IF_ERROR(CheckLayers(placed.geometry, spec));
  if (spec.codec != kRawCodec) {
    return absl::InvalidArgumentError(absl::StrCat("tensors: the space's codec is \"", spec.codec,
                                                   "\"; lanes of host memory move raw blocks"));
  }
  KVT_RETURN_IF_ERROR(CheckRawBlocks(placed.geometry, tensors.order, spec));
  return HostTensors(placed.start, std::move(placed.geometry));
}

}  // namespace kvtier
