// These parts are shared by the tests of residency tables: keys that look like an HMAC's, and a
// worker's view of a table.
#ifndef KVTIER_TESTS_AGENT_RESIDENCY_RIG_H_
#define KVTIER_TESTS_AGENT_RESIDENCY_RIG_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "agent/index/residency_table.h"
#include "client/mapping.h"
#include "client/residency_view.h"
#include "core/block_key.h"
#include "core/check.h"

namespace kvtier::testing {

// Returns the `number`th key, with bits that look random (the finaliser of SplitMix64).
inline BlockKey ResidencyKey(uint64_t number) {
  uint64_t x = (number + 1) * 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return {.hi = number, .lo = x ^ (x >> 31)};
}

// Returns a worker's view of the table, mapped again.
inline std::shared_ptr<const ResidencyView> ViewOf(const ResidencyTable& table) {
  auto mapping = Mapping::Map(table.memory().read_only_fd(), table.memory().bytes().size(),
                              Mapping::Access::kRead);
  KVT_CHECK(mapping.ok());
  auto view = ResidencyView::Open(*std::move(mapping));
  KVT_CHECK(view.ok());
  return *std::move(view);
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_AGENT_RESIDENCY_RIG_H_
