// SpaceTable remembers the spaces a worker named, so that every new session can be
// told of them again, and names their blocks as the agent does.
#ifndef KVTIER_CLIENT_SPACE_TABLE_H_
#define KVTIER_CLIENT_SPACE_TABLE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/block_key.h"
#include "core/space.h"

namespace kvtier {

// Thread-safe. Spaces are numbered 0, 1, ... and never forgotten.
class SpaceTable {
 public:
  static constexpr size_t kMaxSpaces = 16;  // The agent's limit for one session.

  explicit SpaceTable(const TenantKey& tenant) : tenant_(tenant) {}

  // The number of `spec`, new or as before. Errors: kInvalidArgument, naming field
  // and value; kResourceExhausted at kMaxSpaces.
  absl::StatusOr<size_t> Add(const SpaceSpec& spec) ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<SpaceSpec> All() const ABSL_LOCKS_EXCLUDED(mu_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mu_);
  // REQUIRES: a number that Add() gave. Valid as long as the table.
  const BlockNamer& NamerOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t TokensPerBlockOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const TenantKey tenant_;
  mutable absl::Mutex mu_;
  std::vector<SpaceSpec> specs_ ABSL_GUARDED_BY(mu_);
  std::vector<SpaceDigest> digests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<const BlockNamer>> namers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SPACE_TABLE_H_
