// LayOut() says how lanes on a device move the blocks of an engine's KV memory.
//
// Pure.
#ifndef KVTIER_CLIENT_LANES_LAID_OUT_H_
#define KVTIER_CLIENT_LANES_LAID_OUT_H_

#include "absl/status/statusor.h"
#include "client/lanes/kv_tensors.h"
#include "core/space.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

// Returns the form of the engine's blocks in the space; offsets count from the lowest tensor's
// first byte. Errors: kInvalidArgument, naming the field and the value: as StoredAs() and
// PlaceTensors().
absl::StatusOr<BlockForm> LayOut(const KvTensors& tensors, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_LAID_OUT_H_
