#include "client/lanes/laid_out.h"

#include "client/lanes/stored_form.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<BlockForm> LayOut(const KvTensors& tensors, const SpaceSpec& spec) {
  KVT_ASSIGN_OR_RETURN(const PlacedTensors placed, PlaceTensors(tensors));
  KVT_ASSIGN_OR_RETURN(const StoredForm stored, StoredAs(placed.geometry, tensors.order, spec));
  if (!stored) return RawForm(placed.geometry);
  return EncodedForm(placed.geometry, *stored);
}

}  // namespace kvtier
