// Identities and requests of the simulated workers: tenants, spaces, and conversations that share
// prefixes and branch.
#ifndef KVTIER_TESTS_SIM_WORKLOAD_H_
#define KVTIER_TESTS_SIM_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/tenants.h"
#include "core/block_key.h"
#include "core/eviction_policy.h"
#include "core/reuse_hint.h"
#include "core/space.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

inline constexpr size_t kTenants = 3;
inline constexpr size_t kSpaces = 4;
// Number of the space whose blocks the GPU pool is for.
inline constexpr size_t kGpuSpace = 1;
inline constexpr size_t kLongestConversation = 14;

// Returns three tenants; the first is the open one.
TenantTable Tenants();
// Returns a space. Two spaces differ by model alone. The blocks of one space have any length; those
// of the others fill their slots.
SpaceSpec Space(size_t space);
// Returns the length of the block of `key`, which is the same for every worker that puts it.
uint64_t LengthOf(size_t space, const EngineKey& key);

// Draws the engine keys of a conversation, from token 0. The trees are the same for every tenant
// and space, so many equal engine keys have different contents.
std::vector<EngineKey> DrawConversation(testing::SimRandom* random);
// Returns what the engine says of one request's blocks, which in half of all cases is nothing.
ReuseHint DrawHint(testing::SimRandom* random);
// Returns the policies of a node: in each tier the learnt one most often.
EvictionPolicies DrawPolicies(testing::SimRandom* random);
// Returns the `number`-th conversation that DrawConversation() never draws.
std::vector<EngineKey> FreshConversation(uint64_t number, size_t blocks);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_WORKLOAD_H_
