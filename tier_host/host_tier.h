// HostTier is the node's pinned host memory: one arena for each isolation domain
// (the tenants that may see each other's bytes), and slots in them. A mapping shows
// all of a memfd, so bytes of two domains never share one. Memory moves between domains
// by slabs: one leaves the memfd of the one, and another comes into that of the other.
//
// Executor thread only. It knows nothing of keys; eviction is the agent's, and HostShares
// says which slab moves.
#ifndef KVTIER_TIER_HOST_HOST_TIER_H_
#define KVTIER_TIER_HOST_HOST_TIER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/block_lengths.h"
#include "core/start_progress.h"
#include "tier_host/arena.h"
#include "tier_host/slot_pool.h"

namespace kvtier {

// Memory that one thread takes at a time when the arenas are filled.
inline constexpr uint64_t kFillBytes = uint64_t{64} << 20;

// Spaces with any_length use at most one slot size for each kSlotSizesPart slabs of the domain, and
// at least one.
inline constexpr uint64_t kSlotSizesPart = 4;

// Index of an isolation domain in HostTier::Options::domains.
enum class DomainId : uint32_t {};

class HostTier;

// Room for one block. Move-only; the destructor gives it back to the tier, which
// must still be alive.
class HostSlot {
 public:
  HostSlot() = default;
  HostSlot(HostSlot&& other) noexcept;
  HostSlot& operator=(HostSlot&& other) noexcept;
  ~HostSlot();
  explicit operator bool() const { return tier_ != nullptr; }
  DomainId domain() const { return domain_; }
  SlotOffset offset() const { return offset_; }
  uint32_t slab() const { return slab_; }      // Returns the slab that it lies in.
  uint32_t number() const { return number_; }  // Index in that slab, from 0.
  // Returns SlotBytes(length of the block) bytes of the arena, 4 KiB aligned.
  std::span<std::byte> bytes() const { return bytes_; }
  // Returns the size of the slots of its slab: bytes().size(), or more where blocks have lengths of
  // their own.
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Returns the bytes of host memory that its domain has now.
  uint64_t domain_bytes() const;
  void Release();

 private:
  friend class HostTier;
  HostTier* tier_ = nullptr;
  DomainId domain_{};
  uint32_t slab_ = 0;
  uint32_t number_ = 0;
  uint64_t slot_bytes_ = 0;
  SlotOffset offset_;
  std::span<std::byte> bytes_;
};

class HostTier {
 public:
  struct Domain {
    std::string name;        // Names the memfd.
    uint64_t bytes = 0;      // Memory that it begins with, rounded down to whole slabs.
    uint64_t max_bytes = 0;  // Memory that it may ever have; less than `bytes`: `bytes`.
  };
  struct Options {
    std::vector<Domain> domains;
    uint64_t slab_bytes = uint64_t{64} << 20;  // Largest block; the unit shared between sizes.
    SealedMemory::Writers writers =
        SealedMemory::Writers::kHolders;  // Processes that may write the arenas.
    size_t threads = 1;                   // Number of threads that fill the arenas.
    StartProgress* progress = nullptr;    // Told how far they are; null: nobody is.
  };

  // Takes the memory of all domains, and logs how far it is. Errors: kInvalidArgument, a domain
  // smaller than one slab; kResourceExhausted, no memory. REQUIRES: slab_bytes is a positive
  // multiple of 4096.
  static absl::StatusOr<std::unique_ptr<HostTier>> Create(const Options& options);
  // REQUIRES: every slot was given back.
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Adds a domain, with an arena of its own, while the tier is in use; takes no memory for it. Its
  // id is domain_count() - 1 from now on; ids are never used again. Errors: as Create().
  absl::StatusOr<DomainId> AddDomain(const Domain& domain);
  // Ends a domain, which has no slab and no arena from now on, and returns its arena. The memory is
  // unmapped and its descriptors are closed with that, which takes long where a process has touched
  // much of it. REQUIRES: none of its slabs is present, or is being filled or emptied.
  std::unique_ptr<Arena> DropDomain(DomainId domain);
  // Returns whether the domain has an arena, which it has until DropDomain().
  bool HasArena(DomainId domain) const { return RoomOf(domain).arena != nullptr; }

  // REQUIRES of the next ones: HasArena(domain).
  // A slab of a domain comes in two steps: Arena::Fill() and AddSlab(). It goes in four:
  // CloseSlab(); its slots are freed; RemoveSlab(); Arena::Empty(). REQUIRES of each step: the one
  // before.
  void AddSlab(DomainId domain, uint32_t slab) { RoomOf(domain).slots.Add(slab); }
  void CloseSlab(DomainId domain, uint32_t slab) { RoomOf(domain).slots.Close(slab); }
  void ReopenSlab(DomainId domain, uint32_t slab) { RoomOf(domain).slots.Reopen(slab); }
  void RemoveSlab(DomainId domain, uint32_t slab) { RoomOf(domain).slots.Remove(slab); }
  // Returns the arena to fill or to empty. It stays where it is, so any thread may do that.
  Arena* ArenaOf(DomainId domain) { return RoomOf(domain).arena.get(); }
  // Returns the memory of the slab.
  std::span<std::byte> BytesOf(DomainId domain, uint32_t slab) const {
    return arena(domain).bytes().subspan(slab * slab_bytes_, slab_bytes_);
  }

  // Returns the room that a block of `length` gets in the domain. REQUIRES: `length` is positive
  // and `domain` exists.
  BlockRoom RoomFor(DomainId domain, const BlockLengths& lengths, uint64_t length) const;
  // Errors: kResourceExhausted, no slot of that size is free in the domain (evict
  // a block of the domain, then retry); kInvalidArgument, larger than a slab.
  // REQUIRES: `room` is that of a block, and `domain` exists.
  absl::StatusOr<HostSlot> Reserve(DomainId domain, const BlockRoom& room);

  size_t domain_count() const { return domains_.size(); }
  uint64_t slab_bytes() const { return slab_bytes_; }
  const Arena& arena(DomainId domain) const;
  const SlotPool& slots(DomainId domain) const;
  uint64_t capacity_bytes() const;
  uint64_t used_bytes() const;
  // Fragments of the memory of all domains.
  struct Cut {
    uint64_t free_slab_bytes = 0;  // Slabs without a slot: room for blocks of any size.
    // Bytes that blocks of another size cannot have: free slots, and the rests at the ends of slabs
    // with slots.
    uint64_t split_bytes = 0;
    std::map<uint64_t, SlotPool::SizeUse> sizes;  // Use of the memory, by the size of the slots.
  };
  // Returns how host memory is cut into slots. O(slabs).
  Cut cut() const;
  void Audit() const;

 private:
  friend class HostSlot;
  struct Room {
    std::unique_ptr<Arena> arena;
    SlotPool slots;
  };
  explicit HostTier(const Options& options)
      : slab_bytes_(options.slab_bytes), writers_(options.writers) {}
  Room& RoomOf(DomainId domain);
  const Room& RoomOf(DomainId domain) const;
  absl::Status FillAll(const Options& options);
  void Free(DomainId domain, SlotOffset offset);
  const uint64_t slab_bytes_;
  const SealedMemory::Writers writers_;
  std::deque<Room> domains_;  // Domains by id, in a deque so that a domain's address never changes.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_HOST_TIER_H_
