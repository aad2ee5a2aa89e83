// SpaceTable remembers the spaces that a worker registered, so that they can be registered again in
// every new session, and names their blocks as the agent does.
#ifndef KVTIER_CLIENT_SPACE_TABLE_H_
#define KVTIER_CLIENT_SPACE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/space.h"

namespace kvtier {

// Thread-safe. Spaces are numbered 0, 1, ...; the number of one that was removed is never given
// again.
class SpaceTable {
 public:
  static constexpr size_t kMaxSpaces = 16;  // The agent's limit for one session.

  explicit SpaceTable(const TenantKey& tenant) : tenant_(tenant) {}

  // Makes `tenant`, the key of a share group, the key that names blocks from now on.
  void NameFor(const TenantKey& tenant) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of `spec`, a new one or the one it has. Errors: kInvalidArgument, naming
  // field and value; kResourceExhausted at kMaxSpaces.
  absl::StatusOr<size_t> Add(const SpaceSpec& spec) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes a space. Returns false if there is no such space, or not any more.
  bool Remove(size_t number) ABSL_LOCKS_EXCLUDED(mu_);
  bool Has(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the spaces by their numbers.
  std::map<size_t, SpaceSpec> All() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the namer of the space's blocks; null: there is no such space any more.
  std::shared_ptr<const BlockNamer> NamerOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns tokens_per_block; 0: there is no such space any more.
  uint64_t TokensPerBlockOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);
  // Return nullopt if there is no such space any more.
  std::optional<SpaceSpec> SpecOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<BlockLengths> LengthsOf(size_t number) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Space {
    SpaceSpec spec;
    SpaceDigest digest;
    std::shared_ptr<const BlockNamer> namer;
  };
  mutable absl::Mutex mu_;
  TenantKey tenant_ ABSL_GUARDED_BY(mu_);
  std::map<size_t, Space> spaces_ ABSL_GUARDED_BY(mu_);
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SPACE_TABLE_H_
