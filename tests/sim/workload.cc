#include "tests/sim/workload.h"

#include <xxhash.h>

#include <array>
#include <string>

#include "tests/testing/blocks.h"

namespace kvtier::sim {
namespace {

constexpr uint64_t kRoots = 5;
constexpr size_t kTurnBlocks = 4;  // A conversation can branch every so many blocks.
constexpr uint64_t kBranches = 2;
constexpr std::array<uint64_t, kSpaces> kBlockBytes = {4096, 8192, 15000, 8192};
constexpr size_t kAnyLengthSpace = 2;

EvictionPolicy DrawPolicy(testing::SimRandom* random) {
  if (random->Draw(0.5)) return EvictionPolicy::kLearnt;
  return std::array{EvictionPolicy::kLru, EvictionPolicy::kFifo, EvictionPolicy::kPriority}.at(
      random->Below(3));
}

}  // namespace

TenantTable Tenants() {
  const std::vector<TenantTable::Entry> entries = {
      {.name = "default"},
      {.name = "acme", .secret = "a secret of acme's own"},
      {.name = "zeta", .secret = "a secret of zeta's own"}};
  return *TenantTable::Create(entries);
}

SpaceSpec Space(size_t space) {
  SpaceSpec spec = testing::TestSpace(kBlockBytes.at(space));
  spec.model += std::to_string(space);
  spec.any_length = space == kAnyLengthSpace;
  return spec;
}

uint64_t LengthOf(size_t space, const EngineKey& key) {
  const uint64_t longest = kBlockBytes.at(space);
  if (space != kAnyLengthSpace) return longest;
  const std::string_view bytes(reinterpret_cast<const char*>(key.bytes().data()),
                               key.bytes().size());
  const uint64_t drawn = XXH3_64bits(bytes.data(), bytes.size());
  // One block in four has the maximum length, as in a prompt that was cut in chunks.
  return drawn % 4 == 0 ? longest : 1 + drawn / 4 % longest;
}

std::vector<EngineKey> DrawConversation(testing::SimRandom* random) {
  const size_t blocks = 1 + random->Below(kLongestConversation);
  // A key's number names its whole path: the digits of the choices made so far.
  uint64_t path = 1 + random->Below(kRoots);
  std::vector<EngineKey> keys;
  for (size_t i = 0; i < blocks; ++i) {
    if (i > 0 && i % kTurnBlocks == 0) path = path * kRoots + random->Below(kBranches);
    keys.push_back(testing::TestEngineKey(path * 100 + i));
  }
  return keys;
}

ReuseHint DrawHint(testing::SimRandom* random) {
  ReuseHint hint;
  if (random->Draw(0.5)) return hint;
  hint.conversation = random->Below(kRoots);
  if (random->Draw(0.5)) hint.turn = static_cast<uint32_t>(random->Below(20));
  hint.finish = static_cast<FinishReason>(random->Below(5));
  hint.will_not_return = random->Draw(0.1);
  if (random->Draw(0.3)) hint.priority = static_cast<uint8_t>(random->Below(kMaxPriority + 1));
  return hint;
}

EvictionPolicies DrawPolicies(testing::SimRandom* random) {
  EvictionPolicies policies;
  policies.gpu = DrawPolicy(random);
  policies.host = DrawPolicy(random);
  policies.disk = DrawPolicy(random);
  return policies;
}

std::vector<EngineKey> FreshConversation(uint64_t number, size_t blocks) {
  std::vector<EngineKey> keys;
  keys.reserve(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    keys.push_back(testing::TestEngineKey((uint64_t{1} << 40) + number * 100 + i));
  }
  return keys;
}

}  // namespace kvtier::sim
