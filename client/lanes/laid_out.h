// LaidOut is an engine's KV memory as the planner of device copies takes it.
//
// Pure.
#ifndef KVTIER_CLIENT_LANES_LAID_OUT_H_
#define KVTIER_CLIENT_LANES_LAID_OUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/kv_tensors.h"
#include "client/lanes/stored_form.h"
#include "core/space.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

struct LaidOut {
  KvGeometry geometry{};            // Offsets from the lowest tensor's first byte.
  std::vector<uint64_t> borders{};  // Where two tensors touch; ascending.
  StoredForm stored{};
};

// Errors: kInvalidArgument, naming the field and the value: as StoredAs() and PlaceTensors().
absl::StatusOr<LaidOut> LayOut(const KvTensors& tensors, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_LAID_OUT_H_
