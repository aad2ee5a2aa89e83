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
// The GPU pool is for blocks of this space's size.
inline constexpr size_t kGpuSpace = 1;
inline constexpr size_t kLongestConversation = 14;

// Three tenants; the first is the open one.
TenantTable Tenants();
// Sizes that fill a slot and that do not; two spaces differ by model alone. Blocks of one have
// lengths of their own.
SpaceSpec Space(size_t space);
// Returns how long the block of `key` is, which is the same for all who put it.
uint64_t LengthOf(size_t space, const EngineKey& key);

// Engine keys of a conversation, from token 0. The trees are the same for every
// tenant and space, so equal engine keys with different contents abound.
std::vector<EngineKey> DrawConversation(testing::SimRandom* random);
// Returns what the engine says of one request's blocks; half of the engines' requests say nothing.
ReuseHint DrawHint(testing::SimRandom* random);
// Returns the policies of a node: in each tier the learnt one most often.
EvictionPolicies DrawPolicies(testing::SimRandom* random);
// The `number`-th conversation that DrawConversation() never draws.
std::vector<EngineKey> FreshConversation(uint64_t number, size_t blocks);

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_WORKLOAD_H_
