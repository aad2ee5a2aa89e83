// FakeMemoryBinder notes which memory is bound to which node, on a machine of any number of NUMA
// nodes.
#ifndef KVTIER_TESTS_TESTING_FAKE_MEMORY_BINDER_H_
#define KVTIER_TESTS_TESTING_FAKE_MEMORY_BINDER_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "tier_host/memory_binder.h"

namespace kvtier::testing {

class FakeMemoryBinder final : public MemoryBinder {
 public:
  struct Bound {
    std::span<std::byte> memory;
    std::vector<int> nodes;
  };
  absl::Status Bind(std::span<std::byte> memory, std::span<const int> nodes) override {
    if (!answer.ok()) return answer;
    bound.push_back({.memory = memory, .nodes = {nodes.begin(), nodes.end()}});
    return absl::OkStatus();
  }

  absl::Status answer;       // Answer to every call.
  std::vector<Bound> bound;  // Calls, in their order.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_MEMORY_BINDER_H_
