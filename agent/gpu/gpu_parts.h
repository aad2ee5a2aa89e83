// These functions divide the memory of a GPU into parts, one for the pool of each tenant. A part is
// a whole number of handles, which all have one size.
//
// Pure arithmetic; any thread.
#ifndef KVTIER_AGENT_GPU_GPU_PARTS_H_
#define KVTIER_AGENT_GPU_GPU_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tier_share.h"

namespace kvtier {

// Returns the bytes of a handle where `bytes` of one GPU are divided: a multiple of
// kRegionGranularity, 1 GiB at most unless a pool of all these bytes would then have more handles
// than a region may.
uint64_t GpuPartUnit(uint64_t bytes);

// Returns how many handles of `unit` bytes a pool has at least: those of one slot.
uint64_t LeastGpuPart(uint64_t slot_bytes, uint64_t unit);

// Returns the part of each share, all in handles, while every tenant wants everything: its fair
// share of `units`, and no less than `least`. REQUIRES: `least` for each of them fits into `units`.
std::vector<uint64_t> GpuParts(uint64_t units, uint64_t least, std::span<const TierShare> shares);

// Returns the bytes that the pool of each tenant begins with, before shares are known: equal parts,
// the first ones one handle larger where it does not come out even. Errors: kInvalidArgument, a
// part would have no slot.
absl::StatusOr<std::vector<uint64_t>> FirstGpuParts(uint64_t bytes, uint64_t slot_bytes,
                                                    size_t tenants);

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_PARTS_H_
