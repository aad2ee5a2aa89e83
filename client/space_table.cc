#include "client/space_table.h"

#include "absl/strings/str_cat.h"

namespace kvtier {

void SpaceTable::NameFor(const TenantKey& tenant) {
  absl::MutexLock lock(&mu_);
  if (tenant_ == tenant) return;
  tenant_ = tenant;
  for (auto& [number, space] : spaces_) {
    space.namer = std::make_shared<const BlockNamer>(tenant_, space.digest);
  }
}

absl::StatusOr<size_t> SpaceTable::Add(const SpaceSpec& spec) {
  if (absl::Status valid = spec.Validate(); !valid.ok()) return valid;
  const SpaceDigest digest = spec.Digest();
  absl::MutexLock lock(&mu_);
  for (const auto& [number, space] : spaces_) {
    if (space.digest == digest) return number;
  }
  if (spaces_.size() == kMaxSpaces) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", kMaxSpaces,
                     " spaces, the most that it may; make another client for more"));
  }
  spaces_.emplace(next_, Space{.spec = spec,
                               .digest = digest,
                               .namer = std::make_shared<const BlockNamer>(tenant_, digest)});
  return next_++;
}

bool SpaceTable::Remove(size_t number) {
  absl::MutexLock lock(&mu_);
  return spaces_.erase(number) > 0;
}

bool SpaceTable::Has(size_t number) const {
  absl::MutexLock lock(&mu_);
  return spaces_.contains(number);
}

std::map<size_t, SpaceSpec> SpaceTable::All() const {
  std::map<size_t, SpaceSpec> all;
  absl::MutexLock lock(&mu_);
  for (const auto& [number, space] : spaces_) all.emplace(number, space.spec);
  return all;
}

std::shared_ptr<const BlockNamer> SpaceTable::NamerOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  const auto found = spaces_.find(number);
  return found == spaces_.end() ? nullptr : found->second.namer;
}

uint64_t SpaceTable::TokensPerBlockOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  const auto found = spaces_.find(number);
  return found == spaces_.end() ? 0 : found->second.spec.tokens_per_block;
}

std::optional<SpaceSpec> SpaceTable::SpecOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  const auto found = spaces_.find(number);
  if (found == spaces_.end()) return std::nullopt;
  return found->second.spec;
}

std::optional<BlockLengths> SpaceTable::LengthsOf(size_t number) const {
  absl::MutexLock lock(&mu_);
  const auto found = spaces_.find(number);
  if (found == spaces_.end()) return std::nullopt;
  return BlockLengths::Of(found->second.spec);
}

}  // namespace kvtier
