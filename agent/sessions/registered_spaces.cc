#include "agent/sessions/registered_spaces.h"

#include "agent/limits.h"

namespace kvtier {

void RegisteredSpaces::Add(DomainId domain, const SpaceSpec& spec, const SpaceDigest& digest) {
  const Key key(domain, digest);
  auto found = spaces_.find(key);
  if (found == spaces_.end()) {
    if (spaces_.size() >= kMaxSpacesDescribed && !ForgetOne()) {
      ++forgotten_;
      return;
    }
    found =
        spaces_.emplace(key, Registered{.domain = domain, .spec = spec, .digest = digest}).first;
  }
  ++found->second.sessions;
  found->second.last_used = ++uses_;
}

void RegisteredSpaces::Remove(DomainId domain, const SpaceDigest& digest) {
  const auto found = spaces_.find(Key(domain, digest));
  // Registered while all were in use, and not remembered.
  if (found == spaces_.end() || found->second.sessions == 0) return;
  --found->second.sessions;
  found->second.last_used = ++uses_;
}

std::vector<const RegisteredSpaces::Registered*> RegisteredSpaces::All() const {
  std::vector<const Registered*> all;
  all.reserve(spaces_.size());
  for (const auto& [key, registered] : spaces_) all.push_back(&registered);
  return all;
}

bool RegisteredSpaces::ForgetOne() {
  auto oldest = spaces_.end();
  for (auto it = spaces_.begin(); it != spaces_.end(); ++it) {
    if (it->second.sessions > 0) continue;
    if (oldest == spaces_.end() || it->second.last_used < oldest->second.last_used) oldest = it;
  }
  if (oldest == spaces_.end()) return false;
  spaces_.erase(oldest);
  return true;
}

}  // namespace kvtier
