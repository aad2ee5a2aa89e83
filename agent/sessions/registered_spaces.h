// RegisteredSpaces remembers the spaces that workers registered, for operators who ask why two
// workers do not share blocks: the text of each space, its tenant, and the number of sessions that
// use it. It only informs; no decision depends on it.
//
// Executor thread only. Bounded: kMaxSpacesDescribed.
#ifndef KVTIER_AGENT_SESSIONS_REGISTERED_SPACES_H_
#define KVTIER_AGENT_SESSIONS_REGISTERED_SPACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/block_key.h"
#include "core/space.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class RegisteredSpaces {
 public:
  struct Registered {
    DomainId domain{};  // Domain of the tenant.
    SpaceSpec spec;
    SpaceDigest digest;
    size_t sessions = 0;     // Sessions that use it now; 0: none any more.
    uint64_t last_used = 0;  // Number of the last Add() or Remove(): the larger, the later.
  };

  // Notes that one session more uses `spec`, whose digest is `digest`. Beyond kMaxSpacesDescribed,
  // the space that has been unused for the longest time is forgotten; if all are in use, this one
  // is not remembered.
  void Add(DomainId domain, const SpaceSpec& spec, const SpaceDigest& digest);
  // Notes that one session less uses the space. Ignores spaces that are not remembered.
  void Remove(DomainId domain, const SpaceDigest& digest);

  // Returns all, by domain and then by digest.
  std::vector<const Registered*> All() const;
  // Returns how many uses of spaces were not remembered, so far.
  uint64_t forgotten() const { return forgotten_; }

 private:
  using Key = std::pair<DomainId, SpaceDigest>;
  // Forgets an unused space. Returns false if all are in use.
  bool ForgetOne();

  std::map<Key, Registered> spaces_;
  uint64_t uses_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_REGISTERED_SPACES_H_
