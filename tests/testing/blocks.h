// Blocks, keys and spaces for tests: contents that anyone can recompute, so that
// a byte which is not the asker's own shows.
#ifndef KVTIER_TESTS_TESTING_BLOCKS_H_
#define KVTIER_TESTS_TESTING_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/block_key.h"
#include "core/space.h"

namespace kvtier::testing {

// The `number`-th engine key, 16 bytes; different numbers give different keys.
EngineKey TestEngineKey(uint64_t number);

// A valid space whose blocks are `block_bytes` long.
SpaceSpec TestSpace(uint64_t block_bytes);

// A valid space whose blocks have lengths of their own, `longest` at most.
SpaceSpec AnyLengthSpace(uint64_t longest);

// Fills `block` with noise that depends on tenant, key and position alone: no two
// blocks share a 64-bit word but by chance, and nothing compresses.
void FillBlock(uint64_t tenant_seed, const EngineKey& key, std::span<std::byte> block);

// True when `block` is what FillBlock() writes.
bool HoldsBlock(uint64_t tenant_seed, const EngineKey& key, std::span<const std::byte> block);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_BLOCKS_H_
