// LaidOut is an engine's KV memory as the planner of device copies takes it, and StoredForm what
// becomes of its blocks on the way.
//
// Pure.
#ifndef KVTIER_CLIENT_LANES_LAID_OUT_H_
#define KVTIER_CLIENT_LANES_LAID_OUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/kv_tensors.h"
#include "core/space.h"
#include "tier_gpu/plan/block_plan.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

// What becomes of blocks on the way: nullopt, they are stored as they are; otherwise they
// are encoded and decoded by the lane, whatever the order of tokens and heads.
using StoredForm = std::optional<StoredBlocks>;

struct LaidOut {
  KvGeometry geometry{};            // Offsets from the lowest tensor's first byte.
  std::vector<uint64_t> borders{};  // Where two tensors touch; ascending.
  StoredForm stored{};
};

// How the space stores blocks of this geometry. Errors: kInvalidArgument, naming the
// space's field and the two values: layers, of raw blocks layout and block_bytes, of
// encoded ones what SpaceCodec::Of() and PlanBlocks() have.
absl::StatusOr<StoredForm> StoredAs(const KvGeometry& geometry, KvOrder order,
                                    const SpaceSpec& spec);

// Errors: kInvalidArgument, naming the field and the value: as StoredAs() and PlaceTensors().
absl::StatusOr<LaidOut> LayOut(const KvTensors& tensors, const SpaceSpec& spec);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_LAID_OUT_H_
