// ResidencyView reads the residency table of one isolation domain while the agent writes it
// (proto/residency_words.h). A look costs one or two cache lines, waits for nothing and never
// retries, whatever happened to the agent.
#ifndef KVTIER_CLIENT_RESIDENCY_VIEW_H_
#define KVTIER_CLIENT_RESIDENCY_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "client/mapping.h"
#include "client/residence.h"
#include "core/block_key.h"

namespace kvtier {

// Thread-safe. The answer is true for a block that the agent neither gained nor lost during the
// look: such a block is never kAbsent while it is there. A retired table says nothing; see
// retired().
class ResidencyView {
 public:
  // Errors: kFailedPrecondition, this is no table or not one of this size.
  static absl::StatusOr<std::shared_ptr<const ResidencyView>> Open(
      std::shared_ptr<const Mapping> mapping);

  // Prefetches the cache lines that Look() will read.
  void PrefetchCacheLines(const BlockKey& key) const;
  Residence Look(const BlockKey& key) const;
  // Returns whether another table has replaced this one. Call it after the looks: if it is false,
  // the table was up to date during all of them.
  bool retired() const;

 private:
  ResidencyView(std::shared_ptr<const Mapping> mapping, std::span<const uint64_t> words,
                uint32_t log2_buckets)
      : mapping_(std::move(mapping)), words_(words), log2_buckets_(log2_buckets) {}

  const std::shared_ptr<const Mapping> mapping_;
  const std::span<const uint64_t> words_;
  const uint32_t log2_buckets_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESIDENCY_VIEW_H_
