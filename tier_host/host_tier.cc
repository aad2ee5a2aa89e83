#include "tier_host/host_tier.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {

HostSlot::HostSlot(HostSlot&& other) noexcept
    : tier_(std::exchange(other.tier_, nullptr)),
      domain_(other.domain_),
      slab_(other.slab_),
      number_(other.number_),
      slot_bytes_(other.slot_bytes_),
      offset_(other.offset_),
      bytes_(std::exchange(other.bytes_, {})) {}

HostSlot& HostSlot::operator=(HostSlot&& other) noexcept {
  if (this == &other) return *this;
  Release();
  tier_ = std::exchange(other.tier_, nullptr);
  domain_ = other.domain_;
  slab_ = other.slab_;
  number_ = other.number_;
  slot_bytes_ = other.slot_bytes_;
  offset_ = other.offset_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

HostSlot::~HostSlot() { Release(); }

void HostSlot::Release() {
  if (tier_ == nullptr) return;
  bytes_ = {};
  std::exchange(tier_, nullptr)->Free(domain_, offset_);
}

absl::StatusOr<std::unique_ptr<HostTier>> HostTier::Create(const Options& options) {
  KVT_CHECK(options.slab_bytes > 0 && options.slab_bytes % kBlockAlignment == 0);
  auto tier = absl::WrapUnique(new HostTier(options));
  for (const Domain& domain : options.domains) {
    KVT_RETURN_IF_ERROR(tier->AddDomain(domain).status());
  }
  return tier;
}

absl::StatusOr<DomainId> HostTier::AddDomain(const Domain& domain) {
  if (domain.bytes < slab_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("host tier: domain \"", domain.name, "\" of ", domain.bytes,
                     " bytes is smaller than one slab of ", slab_bytes_, " bytes"));
  }
  const uint64_t bytes = domain.bytes - domain.bytes % slab_bytes_;
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, Arena::Create(domain.name, bytes, writers_));
  domains_.push_back(Room{std::move(arena), SlotPool(bytes, slab_bytes_)});
  return static_cast<DomainId>(domains_.size() - 1);
}

HostTier::~HostTier() { KVT_CHECK(used_bytes() == 0); }

BlockRoom HostTier::RoomFor(DomainId domain, const BlockLengths& lengths, uint64_t length) const {
  const uint64_t slabs = slots(domain).slab_count();
  return kvtier::RoomFor(lengths, length, std::max<uint64_t>(1, slabs / kSlotSizesPart));
}

absl::StatusOr<HostSlot> HostTier::Reserve(DomainId domain, const BlockRoom& room) {
  const uint64_t used_bytes = SlotBytes(room.length);
  KVT_CHECK(room.length > 0 && room.slot_bytes >= used_bytes);
  SlotPool& pool = RoomOf(domain).slots;
  if (room.length > pool.slab_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("a block of ", room.length,
                                                   " bytes is larger than a slab of ",
                                                   pool.slab_bytes(), " bytes"));
  }
  KVT_ASSIGN_OR_RETURN(const SlotOffset offset, pool.Allocate(room.slot_bytes));
  HostSlot slot;
  slot.tier_ = this;
  slot.domain_ = domain;
  slot.slab_ = pool.SlabOf(offset);
  slot.number_ = pool.NumberOf(offset);
  slot.slot_bytes_ = room.slot_bytes;
  slot.offset_ = offset;
  slot.bytes_ = arena(domain).bytes().subspan(offset.value, used_bytes);
  return slot;
}

const Arena& HostTier::arena(DomainId domain) const {
  KVT_CHECK(static_cast<size_t>(domain) < domains_.size());
  return *domains_[static_cast<size_t>(domain)].arena;
}

const SlotPool& HostTier::slots(DomainId domain) const {
  KVT_CHECK(static_cast<size_t>(domain) < domains_.size());
  return domains_[static_cast<size_t>(domain)].slots;
}

HostTier::Room& HostTier::RoomOf(DomainId domain) {
  KVT_CHECK(static_cast<size_t>(domain) < domains_.size());
  return domains_[static_cast<size_t>(domain)];
}

void HostTier::Free(DomainId domain, SlotOffset offset) { RoomOf(domain).slots.Free(offset); }

uint64_t HostTier::capacity_bytes() const {
  uint64_t bytes = 0;
  for (const Room& room : domains_) bytes += room.slots.capacity_bytes();
  return bytes;
}

uint64_t HostTier::used_bytes() const {
  uint64_t bytes = 0;
  for (const Room& room : domains_) bytes += room.slots.used_bytes();
  return bytes;
}

void HostTier::Audit() const {
  for (const Room& room : domains_) {
    KVT_CHECK(room.arena->bytes().size() == room.slots.capacity_bytes());
    room.slots.Audit();
  }
}

}  // namespace kvtier
