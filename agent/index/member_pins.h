// MemberPins counts what members of share groups have pinned of their groups' host memory, by
// leases, tickets and requests in progress. It bounds that: a member that reads and never lets go
// leaves room for the puts of others.
//
// A block counts once, for the member that was the first to pin it of those that have it pinned;
// when that one lets go, it counts for the next. So it costs a member nothing to read what another
// member has pinned, and the bytes of a group's members are those of different blocks.
//
// Executor thread only. Memory: some words for each block that a member has pinned.
#ifndef KVTIER_AGENT_INDEX_MEMBER_PINS_H_
#define KVTIER_AGENT_INDEX_MEMBER_PINS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "agent/index/pin.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class MemberPins {
 public:
  // The group whose block it is.
  struct Group {
    DomainId domain{};
    uint64_t bytes = 0;  // Bytes of its host memory now.
  };
  // Counts one more pin by the member of a block that takes `bytes`. Returns false, and counts
  // nothing, if no member has pinned the block and it is beyond what the member may pin
  // (kMemberPinPart, kGroupLeftPart).
  bool Take(const ResidentBlock* block, uint64_t bytes, const Group& group, DomainId member);
  // Counts one pin less. REQUIRES: Take() has counted it.
  void GiveBack(const ResidentBlock* block, DomainId member);
  // Returns the bytes that count for the member in the group.
  uint64_t BytesOf(DomainId group, DomainId member) const;
  void Audit() const;

 private:
  struct Holder {
    DomainId member{};
    size_t pins = 0;
  };
  struct Pinned {
    uint64_t bytes = 0;
    DomainId group{};
    std::vector<Holder> holders;  // The block counts for the first.
  };
  // Bytes of the members of a group, those of 0 bytes left out.
  using Bytes = absl::flat_hash_map<std::pair<DomainId, DomainId>, uint64_t>;
  static void Add(Bytes* bytes, const Pinned& pinned);

  absl::flat_hash_map<const ResidentBlock*, Pinned> pinned_;
  Bytes bytes_;                                     // Bytes by group and member.
  absl::flat_hash_map<DomainId, uint64_t> totals_;  // Bytes of all members, by group.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_MEMBER_PINS_H_
