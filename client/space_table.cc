#include "client/space_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvtier {

absl::StatusOr<size_t> SpaceTable::Add(const SpaceSpec& spec) {
  if (absl::Status valid = spec.Validate(); !valid.ok()) return valid;
  const SpaceDigest digest = spec.Digest();
  absl::MutexLock lock(&mu_);
  const auto known = std::find(digests_.begin(), digests_.end(), digest);
  if (known != digests_.end()) return static_cast<size_t>(known - digests_.begin());
  if (specs_.size() == kMaxSpaces) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a client has at most ", kMaxSpaces, " spaces"));
  }
  specs_.push_back(spec);
  digests_.push_back(digest);
  namers_.push_back(std::make_unique<const BlockNamer>(tenant_, digest));
  return specs_.size() - 1;
}

std::vector<SpaceSpec> SpaceTable::All() const {
  absl::MutexLock lock(&mu_);
  return specs_;
}

const BlockNamer& SpaceTable::NamerOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  return *namers_.at(number);
}

uint64_t SpaceTable::TokensPerBlockOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  return specs_.at(number).tokens_per_block;
}

size_t SpaceTable::size() const {
  absl::MutexLock lock(&mu_);
  return specs_.size();
}

}  // namespace kvtier
