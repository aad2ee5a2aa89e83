// HostShares says how many slabs of host memory each domain should have, and which slab moves next
// to get there. A domain wants the slabs that it uses and an eighth more, for blocks to come
// (kHeadroomDivisor); a domain without a free slab wants all that it can get. Of what it wants it
// has its fair share (core/tier_share.h). So the part of its guarantee that a domain does not use
// is lent, and is taken back when the domain has filled the rest. A domain that has more than its
// maximum gives slabs back, wanted or not. The number of slabs of all domains together may be
// changed: slabs beyond it leave the node.
//
// HostShares moves nothing: callers tell it by Begin() and End() which slabs are on their way.
// Executor thread only.
#ifndef KVTIER_TIER_HOST_HOST_SHARES_H_
#define KVTIER_TIER_HOST_HOST_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/tier_share.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// A domain wants one part in kHeadroomDivisor of what it uses on top, and one slab at least: room
// for a burst, while more is on its way.
inline constexpr uint64_t kHeadroomDivisor = 8;

// HostMemory says whether slabs move between the domains of a node (kMoving), or each domain keeps
// the slabs that it begins with (kFixed).
enum class HostMemory : uint8_t { kFixed, kMoving };

// SlabMove is one slab that is to move.
struct SlabMove {
  std::optional<DomainId> from;  // nullopt: from memory that no domain has.
  std::optional<DomainId> to;    // nullopt: to the system. At least one of the two is a domain.
  friend bool operator==(const SlabMove&, const SlabMove&) = default;
};

class HostShares {
 public:
  // `slabs` is how many all domains together may have; each of the domains is guaranteed an equal
  // part of them. REQUIRES: `domains` is not 0.
  HostShares(uint64_t slabs, size_t domains);

  // Sets what each domain may have, in slabs; a domain that is not named may have nothing.
  // REQUIRES: each share is as TierShare says, and the guarantees fit into all slabs.
  void Divide(const std::map<DomainId, TierShare>& shares);
  // Sets how many slabs all domains together may have, and what each may have of them. REQUIRES: as
  // Divide().
  void Resize(uint64_t slabs, const std::map<DomainId, TierShare>& shares);
  // Lets a domain keep what it has: it neither gives nor takes slabs.
  void Fix(DomainId domain);

  uint64_t slabs() const { return slabs_; }
  bool is_fixed(DomainId domain) const { return DomainOf(domain).fixed; }
  // Returns how many slabs all domains have, with those on their way.
  uint64_t Present(const HostTier& host) const;
  // Returns whether all slabs of the domain may stay, those that are leaving included.
  bool MayStay(DomainId domain, const HostTier& host) const;
  // Returns whether no memory is on its way from the system or to it, nor is to leave.
  bool IsSettled(const HostTier& host) const;
  // Returns what the domain may have, in slabs, as Divide() set it.
  TierShare Of(DomainId domain) const;
  // Returns the same, except that a fixed domain has what it has, no less and no more.
  TierShare InForce(DomainId domain, const HostTier& host) const;
  // Returns how many slabs each domain begins with: its fair share while all of them want all that
  // they can get.
  std::vector<uint64_t> AtFirst() const;
  // Returns how many slabs the domain could use; UINT64_MAX: all that it can get.
  uint64_t WantedBy(DomainId domain, const HostTier& host) const;
  // Returns the fair share of each domain now, in slabs.
  std::vector<uint64_t> Fair(const HostTier& host) const;
  // Returns the slab to move next; nullopt: none should. First comes a domain that wants more of
  // its guarantee than it has, then a slab that the node has too much, then a domain that has less
  // than its fair share, then a domain that has more than its maximum. The slab comes from memory
  // that no domain has, or else from a domain with free slabs beyond its fair share, or else from
  // the domain that is furthest beyond it.
  std::optional<SlabMove> Next(const HostTier& host) const;
  // Returns the slab that leaves the node next; nullopt: none is to.
  std::optional<SlabMove> NextToLeave(const HostTier& host) const;
  // Returns the move of a slab that no domain has to the domain that lacks most of the share that
  // it had if all domains wanted everything; nullopt: there is no such slab, or no domain may have
  // more.
  std::optional<SlabMove> NextToFill(const HostTier& host) const;
  // Notes that the move has begun. It ends once, by End().
  void Begin(const SlabMove& move);
  // Notes that the slab of a move has been removed from its domain, and lies between two.
  void NoteRemoved() { ++between_; }
  // Notes that the move has ended: its slab has arrived (kMoved), or was not removed (kStayed).
  enum class Outcome : uint8_t { kMoved, kStayed };
  void End(const SlabMove& move, Outcome outcome);

 private:
  struct Domain {
    TierShare share{.maximum = 0};
    bool fixed = false;
    uint64_t incoming = 0;  // Slabs on their way to it.
  };
  const Domain& DomainOf(DomainId domain) const;
  Domain& At(DomainId domain);
  // Returns how many slabs the domain has or is about to have.
  uint64_t HeldBy(DomainId domain, const HostTier& host) const;
  // Returns what each domain is to have where it wants `wanted(domain)` slabs.
  template <typename Wanted>
  std::vector<uint64_t> Divided(const HostTier& host, Wanted wanted) const;
  // Returns the move of a slab from the domain that is furthest beyond its maximum to the neediest
  // one, or else to the system; nullopt: no domain has more than its maximum.
  std::optional<SlabMove> NextBeyondMaximum(const HostTier& host) const;
  // Returns the domain that is furthest below the share that it had if all domains wanted
  // everything; nullopt: none may have more.
  std::optional<DomainId> Neediest(const HostTier& host) const;
  // Returns the domain that the next slab is taken from; nullopt: none has more than `fair`.
  std::optional<DomainId> Giver(const HostTier& host, const std::vector<uint64_t>& fair) const;
  bool HasTooMany(const HostTier& host) const { return Present(host) > slabs_ + leaving_; }

  uint64_t slabs_;
  std::vector<Domain> domains_;  // Domains by id, up to the highest id that was named.
  uint64_t between_ = 0;         // Slabs on their way, which no domain has.
  uint64_t coming_ = 0;          // Number of these slabs that come from no domain.
  uint64_t leaving_ = 0;         // Slabs on their way out of the node.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_HOST_SHARES_H_
