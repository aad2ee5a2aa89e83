// These parts are shared by the tests of residency tables: keys, and a worker's view of a table.
#ifndef KVTIER_TESTS_AGENT_RESIDENCY_RIG_H_
#define KVTIER_TESTS_AGENT_RESIDENCY_RIG_H_

#include <memory>
#include <utility>

#include "agent/index/residency_table.h"
#include "client/mapping.h"
#include "client/residency_view.h"
#include "core/check.h"
#include "tests/testing/numbered_key.h"

namespace kvtier::testing {

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
