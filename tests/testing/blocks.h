// Blocks, keys and spaces for tests. A test can compute the contents of each block again, so that
// a byte of another block shows.
#ifndef KVTIER_TESTS_TESTING_BLOCKS_H_
#define KVTIER_TESTS_TESTING_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/block_key.h"
#include "core/space.h"

namespace kvtier::testing {

// Returns the `number`-th engine key, of 16 bytes; different numbers give different keys.
EngineKey TestEngineKey(uint64_t number);

// Returns a valid space whose blocks are `block_bytes` long.
SpaceSpec TestSpace(uint64_t block_bytes);

// Returns a valid space whose blocks have lengths of their own, `longest` at most.
SpaceSpec AnyLengthSpace(uint64_t longest);

// Fills `block` with noise that depends on tenant, key and position alone. Two blocks have an equal
// 64-bit word only by chance, and no block compresses.
void FillBlock(uint64_t tenant_seed, const EngineKey& key, std::span<std::byte> block);

// Returns whether `block` is what FillBlock() writes.
bool HoldsBlock(uint64_t tenant_seed, const EngineKey& key, std::span<const std::byte> block);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_BLOCKS_H_
