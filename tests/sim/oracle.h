// Oracle judges a world: it knows which bytes every block must have and how long each request may
// take, and remembers the first failure.
#ifndef KVTIER_TESTS_SIM_ORACLE_H_
#define KVTIER_TESTS_SIM_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/clock.h"

namespace kvtier::sim {

// Returns the seed of contents, which are a function of (tenant, space, engine key): equal engine
// keys of two tenants never have the same bytes.
uint64_t ContentSeed(size_t tenant, size_t space);

class Oracle {
 public:
  explicit Oracle(const Clock* clock) : clock_(clock) {}

  // Expects that `bytes`, which a worker of (tenant, space) was given as the block of `key`, have
  // the block's length and content.
  void ExpectBlock(size_t tenant, size_t space, const EngineKey& key,
                   std::span<const std::byte> bytes);
  // Expects that `deadline`, by which a request that ends now had to end, has not passed.
  void ExpectInTime(const char* request, absl::Time deadline);
  void Expect(bool holds, const std::string& otherwise);

  const std::optional<std::string>& failure() const { return failure_; }
  uint64_t blocks_checked() const { return blocks_checked_; }
  // Returns how many checked blocks were shorter than the longest block of their space.
  uint64_t short_blocks_checked() const { return short_blocks_checked_; }

 private:
  const Clock* const clock_;  // Not owned.
  std::optional<std::string> failure_;
  uint64_t blocks_checked_ = 0;
  uint64_t short_blocks_checked_ = 0;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_ORACLE_H_
