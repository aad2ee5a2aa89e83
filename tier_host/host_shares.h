// HostShares says how many slabs of host memory each domain should have, and which one is to move
// next so that it has. A domain wants what it uses and an eighth more, for what
// comes next (kHeadroomDivisor); one without a free slab wants all that it can get. Of that it has
// its fair share (core/tier_share.h): so what a domain does not use of its guarantee is lent, and
// is taken back when it has filled the rest.
//
// Counts, and moves nothing; it is told of the slabs that are on their way, several at a time.
// Executor thread only.
#ifndef KVTIER_TIER_HOST_HOST_SHARES_H_
#define KVTIER_TIER_HOST_HOST_SHARES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/tier_share.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// A domain wants this part of what it uses on top, and one slab at least: room for a burst, while
// more is on its way.
inline constexpr uint64_t kHeadroomDivisor = 8;

// Whether slabs move between the domains of a node, or each domain keeps what it begins with.
enum class HostMemory : uint8_t { kFixed, kMoving };

// One slab that is to move.
struct SlabMove {
  std::optional<DomainId> from;  // nullopt: from memory that no domain has.
  std::optional<DomainId> to;    // nullopt: the node has more than it should.
  friend bool operator==(const SlabMove&, const SlabMove&) = default;
};

class HostShares {
 public:
  // `slabs` is how many all domains together may have.
  explicit HostShares(uint64_t slabs) : slabs_(slabs) {}

  // Sets what a domain may have, in slabs; nullopt: an equal part, among all such domains, of what
  // the guarantees of the others leave. Errors: kInvalidArgument, saying why: the share is none, or
  // guarantees would be more than there is; nothing is changed.
  absl::Status Set(DomainId domain, std::optional<TierShare> share);
  // Lets a domain keep what it has: it neither gives nor takes slabs.
  void Fix(DomainId domain);
  // Changes how many slabs all domains together may have. Errors: kInvalidArgument, fewer than the
  // guarantees.
  absl::Status Resize(uint64_t slabs);

  uint64_t slabs() const { return slabs_; }
  // Returns what each of so many domains may have, in slabs.
  std::vector<TierShare> Shares(size_t domains) const;
  // Returns how many slabs one of so many domains is guaranteed.
  uint64_t GuaranteedTo(DomainId domain, size_t domains) const;
  // Returns how many slabs each of so many domains begins with: its fair share while all of them
  // want all that they can get.
  std::vector<uint64_t> AtFirst(size_t domains) const;
  // Returns how many slabs the domain could use; UINT64_MAX: all that it can get.
  uint64_t WantedBy(DomainId domain, const HostTier& host) const;
  // Returns the fair share of each domain now, in slabs.
  std::vector<uint64_t> Fair(const HostTier& host) const;
  // Returns the slab to move next; nullopt: none should. A domain that has less than its guarantee
  // and wants it comes first. The slab is taken from whoever has free ones beyond its fair share,
  // or else from whoever is furthest beyond it.
  std::optional<SlabMove> Next(const HostTier& host) const;
  // Notes that the move has begun. It ends once, by End().
  void Begin(const SlabMove& move);
  // Notes that the slab of a move has been removed from its domain, and lies between two.
  void NoteRemoved() { ++between_; }
  // Notes that the move has ended: its slab has arrived, or has left the node, or stays where it
  // was (kStayed), and then it was not removed.
  enum class Outcome : uint8_t { kMoved, kStayed };
  void End(const SlabMove& move, Outcome outcome);

 private:
  struct Setting {
    std::optional<TierShare> share;  // nullopt: an equal part.
    bool fixed = false;
  };
  Setting SettingOf(size_t domain) const {
    return domain < settings_.size() ? settings_[domain] : Setting();
  }
  Setting& At(DomainId domain);
  uint64_t IncomingOf(DomainId domain) const;
  // Returns how many slabs the domain has or is about to have.
  uint64_t HeldBy(DomainId domain, const HostTier& host) const;
  // Returns the guarantee of each of so many domains whose share was not set.
  uint64_t EqualPart(size_t domains) const;
  uint64_t Guaranteed() const;  // Sum over the shares that were set.

  uint64_t slabs_;
  std::vector<Setting> settings_;          // By domain, as far as any was set.
  std::map<DomainId, uint64_t> incoming_;  // Slabs on their way to a domain.
  uint64_t between_ = 0;                   // Slabs that no domain has, and that are on their way.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_HOST_SHARES_H_
