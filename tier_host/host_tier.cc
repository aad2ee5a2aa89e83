#include "tier_host/host_tier.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// FillLog logs how far the filling of host memory is, once in a while, because it may take minutes.
class FillLog {
 public:
  explicit FillLog(uint64_t bytes) : bytes_(bytes) {}
  void Show(uint64_t taken) {
    const absl::Time now = MonotonicClock().Now();
    if (now - last_ < kInterval) return;
    last_ = now;
    Log(LogLevel::kInfo,
        absl::StrCat("host memory: ", taken >> 20, " of ", bytes_ >> 20, " MiB taken"));
  }
  void ShowEnd(size_t threads) const {
    const absl::Duration took = MonotonicClock().Now() - start_;
    Log(LogLevel::kInfo,
        absl::StrCat("host memory: ", bytes_ >> 20, " MiB taken, threads: ", threads, ", in ",
                     absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(1)))));
  }

 private:
  static constexpr absl::Duration kInterval = absl::Seconds(5);

  const uint64_t bytes_;
  const absl::Time start_ = MonotonicClock().Now();
  absl::Time last_ = start_;
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

std::unique_ptr<Arena> HostTier::DropDomain(DomainId domain) {
  Room& room = RoomOf(domain);
  KVT_CHECK(room.arena != nullptr && room.slots.present_slabs() == 0);
  room.slots = SlotPool(0, slab_bytes_);
  return std::move(room.arena);
}

absl::Status HostTier::FillAll(const Options& options) {
  struct Piece {
    Arena* arena = nullptr;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
  uint64_t bytes = 0;
  for (size_t i = 0; i < options.domains.size(); ++i) {
    Arena* const arena = ArenaOf(static_cast<DomainId>(i));
    for (uint64_t slab = 0; slab < options.domains[i].bytes / slab_bytes_; ++slab) {
      for (uint64_t at = 0; at < slab_bytes_; at += kFillBytes) {
        pieces.push_back({.arena = arena,
                          .offset = slab * slab_bytes_ + at,
                          .bytes = std::min(kFillBytes, slab_bytes_ - at)});
      }
      bytes += slab_bytes_;
    }
  }
  if (options.progress != nullptr) options.progress->Begin("takes host memory", bytes);
  absl::Mutex mu;
  absl::Status status;
  std::atomic<size_t> next{0};  // Relaxed, as the next: mu and the joins below order the rest.
  std::atomic<uint64_t> taken{0};
  const auto fill = [&](FillLog* log) {
    while (true) {
      const size_t at = next.fetch_add(1, std::memory_order_relaxed);
      if (at >= pieces.size()) return;
      const Piece& piece = pieces[at];
      const absl::Status filled = piece.arena->Fill(piece.offset, piece.bytes);
      if (!filled.ok()) {
        next.store(pieces.size(), std::memory_order_relaxed);
        absl::MutexLock lock(&mu);
        status.Update(filled);
      }
      const uint64_t so_far = taken.fetch_add(piece.bytes, std::memory_order_relaxed) + piece.bytes;
      if (options.progress != nullptr) options.progress->AddDone(piece.bytes);
      if (log != nullptr) log->Show(so_far);
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min(options.threads, pieces.size());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(fill, nullptr);
  FillLog log(bytes);
  fill(&log);
  for (std::thread& thread : threads) thread.join();
  KVT_RETURN_IF_ERROR(status);
  if (options.progress != nullptr) log.ShowEnd(count);
  for (size_t i = 0; i < options.domains.size(); ++i) {
    for (uint32_t slab = 0; slab < options.domains[i].bytes / slab_bytes_; ++slab) {
      AddSlab(static_cast<DomainId>(i), slab);
    }
  }
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
  KVT_CHECK(HasArena(domain));
  return *RoomOf(domain).arena;
}

const SlotPool& HostTier::slots(DomainId domain) const { return RoomOf(domain).slots; }

HostTier::Room& HostTier::RoomOf(DomainId domain) {
  KVT_CHECK(static_cast<size_t>(domain) < domains_.size());
  return domains_[static_cast<size_t>(domain)];
}

const HostTier::Room& HostTier::RoomOf(DomainId domain) const {
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
    const uint64_t bytes = room.arena == nullptr ? 0 : room.arena->bytes().size();
    KVT_CHECK(bytes == room.slots.slab_count() * slab_bytes_);
    room.slots.Audit();
  }
}

}  // namespace kvtier
