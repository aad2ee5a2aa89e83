#include "tier_host/host_tier.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/check.h"
#include "core/log.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Progress logs how much of the host memory is taken, once in a while: a large one takes minutes.
class Progress {
 public:
  Progress(size_t slabs, uint64_t slab_bytes) : slabs_(slabs), slab_bytes_(slab_bytes) {}
  void Show(size_t taken) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kInterval) return;
    last_ = now;
    Log(LogLevel::kInfo,
        absl::StrCat("host memory: ", Mebibytes(taken), " of ", Mebibytes(slabs_), " MiB taken"));
  }

 private:
  static constexpr std::chrono::seconds kInterval{5};
  uint64_t Mebibytes(size_t slabs) const { return slabs * slab_bytes_ >> 20; }

  const size_t slabs_;
  const uint64_t slab_bytes_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

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

uint64_t HostSlot::domain_bytes() const { return tier_->slots(domain_).capacity_bytes(); }

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
  KVT_RETURN_IF_ERROR(tier->FillAll(options));
  return tier;
}

absl::StatusOr<DomainId> HostTier::AddDomain(const Domain& domain) {
  const uint64_t largest = std::max(domain.bytes, domain.max_bytes);
  if (largest < slab_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat("host tier: domain \"", domain.name, "\" has ",
                                                   largest, " bytes; must have at least a slab, ",
                                                   slab_bytes_, " bytes"));
  }
  const uint64_t bytes = largest - largest % slab_bytes_;
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, Arena::Reserve(domain.name, bytes, writers_));
  domains_.push_back(
      Room{std::move(arena), SlotPool(bytes, slab_bytes_, SlotPool::Slabs::kAbsent)});
  return static_cast<DomainId>(domains_.size() - 1);
}

absl::Status HostTier::FillAll(const Options& options) {
  struct Absent {
    DomainId domain{};
    uint32_t slab = 0;
    Arena* arena = nullptr;
  };
  std::vector<Absent> absent;
  for (size_t i = 0; i < options.domains.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    for (uint32_t slab = 0; slab < options.domains[i].bytes / slab_bytes_; ++slab) {
      absent.push_back({.domain = domain, .slab = slab, .arena = ArenaOf(domain)});
    }
  }
  absl::Mutex mu;
  absl::Status status;
  std::atomic<size_t> next{0};  // Relaxed: mu and the joins below order everything else.
  const auto fill = [&](Progress* progress) {
    while (true) {
      const size_t at = next.fetch_add(1, std::memory_order_relaxed);
      if (at >= absent.size()) return;
      const absl::Status filled =
          absent[at].arena->Fill(absent[at].slab * slab_bytes_, slab_bytes_);
      if (!filled.ok()) {
        next.store(absent.size(), std::memory_order_relaxed);
        absl::MutexLock lock(&mu);
        status.Update(filled);
      }
      if (progress != nullptr) progress->Show(at + 1);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.threads; ++i) threads.emplace_back(fill, nullptr);
  Progress progress(absent.size(), slab_bytes_);
  fill(&progress);
  for (std::thread& thread : threads) thread.join();
  KVT_RETURN_IF_ERROR(status);
  for (const Absent& slab : absent) AddSlab(slab.domain, slab.slab);
  return absl::OkStatus();
}

HostTier::~HostTier() { KVT_CHECK(used_bytes() == 0); }

BlockRoom HostTier::RoomFor(DomainId domain, const BlockLengths& lengths, uint64_t length) const {
  const uint64_t slabs = slots(domain).present_slabs();
  return kvtier::RoomFor(lengths, length, std::max<uint64_t>(1, slabs / kSlotSizesPart));
}

absl::StatusOr<HostSlot> HostTier::Reserve(DomainId domain, const BlockRoom& room) {
  const uint64_t used_bytes = SlotBytes(room.length);
  KVT_CHECK(room.length > 0 && room.slot_bytes >= used_bytes);
  SlotPool& pool = RoomOf(domain).slots;
  if (room.length > pool.slab_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("a block has ", room.length,
                                                   " bytes; must fit in a slab of ",
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

HostTier::Cut HostTier::cut() const {
  Cut cut;
  for (const Room& room : domains_) {
    cut.free_slab_bytes += room.slots.free_slab_bytes();
    room.slots.AddUseTo(&cut.sizes);
  }
  for (const auto& [slot_bytes, use] : cut.sizes) {
    cut.split_bytes += use.slabs * slab_bytes_ - use.used * slot_bytes;
  }
  return cut;
}

void HostTier::Audit() const {
  for (const Room& room : domains_) {
    KVT_CHECK(room.arena->bytes().size() == room.slots.slab_count() * slab_bytes_);
    room.slots.Audit();
  }
}

}  // namespace kvtier
