// Staging is the memory for workers that are not trusted with the arena: each session has a region
// of shared memory, which only the session's process and the agent map. A block is written to a
// slot of the region, and the agent copies it into the arena at commit, where no worker can write.
// docs/design/staged.md has the details.
//
// Executor thread only, but for the bytes of a slot, which byte threads read.
#ifndef KVTIER_AGENT_SESSIONS_STAGING_H_
#define KVTIER_AGENT_SESSIONS_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "agent/sessions/sessions.h"
#include "tier_host/host_tier.h"
#include "tier_host/range_pool.h"
#include "tier_host/sealed_memory.h"

namespace kvtier {

// Shared memory of one session, with the ranges that its reservations use.
struct StagingRegion {
  explicit StagingRegion(std::unique_ptr<SealedMemory> sealed)
      : memory(std::move(sealed)), ranges(memory->bytes().size()) {}
  const std::unique_ptr<SealedMemory> memory;
  RangePool ranges;
};

// Room for one block in a region. Move-only; the destructor gives it back. While it lives, the
// region stays mapped, also when its session has ended.
class StagedSlot {
 public:
  StagedSlot() = default;  // Holds no slot.
  StagedSlot(StagedSlot&& other) noexcept { *this = std::move(other); }
  StagedSlot& operator=(StagedSlot&& other) noexcept;
  ~StagedSlot() { Release(); }
  explicit operator bool() const { return region_ != nullptr; }
  uint64_t offset() const { return offset_; }  // Returns the offset in the region.
  // Returns the slot's bytes, which the worker wrote and may still write.
  std::span<const std::byte> bytes() const {
    return region_->memory->bytes().subspan(offset_, bytes_);
  }
  void Release();

 private:
  friend class Staging;
  StagedSlot(std::shared_ptr<StagingRegion> region, uint64_t offset, uint64_t bytes)
      : region_(std::move(region)), offset_(offset), bytes_(bytes) {}
  std::shared_ptr<StagingRegion> region_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

class Staging {
 public:
  struct Options {
    uint64_t session_bytes = 0;  // Size of each session's region; 0: workers write the arena.
    // Largest sum of a tenant's regions; each tenant may have one, however small this is.
    uint64_t max_domain_bytes = 0;
  };
  struct Report {
    uint64_t session_bytes = 0;
    size_t regions = 0;
    uint64_t reserved_bytes = 0;   // Bytes of slots that are being written.
    uint64_t refused_regions = 0;  // Sessions that got none, since the start.
  };
  explicit Staging(const Options& options) : options_(options) {}

  // Returns whether a worker writes to its region alone.
  bool enabled() const { return options_.session_bytes > 0; }
  // Returns the session's region, which the first call makes. If it cannot be made, this is logged
  // once for the session. REQUIRES: the session is open. `payer` is the domain of the tenant that
  // pays for the session. Errors: kNotFound, workers of this node write the arena;
  // kResourceExhausted, the tenant has as many as it may have, or there is no memory.
  absl::StatusOr<const SealedMemory*> RegionOf(SessionId session, DomainId payer);
  // Returns a slot of `bytes` in the session's region. Returns an empty slot if the session has no
  // region, or the region no room. REQUIRES: `bytes` is positive.
  StagedSlot Take(SessionId session, uint64_t bytes);
  // Unmaps the session's region as soon as no slot of it is in use. Unknown ids are ignored.
  void Close(SessionId session);
  // Returns how many slots of `slot_bytes` a whole region has.
  uint64_t SlotsOf(uint64_t slot_bytes) const { return options_.session_bytes / slot_bytes; }
  Report report() const;
  void Audit() const;

 private:
  absl::StatusOr<std::shared_ptr<StagingRegion>> Make(SessionId session, DomainId payer);
  struct Owned {
    DomainId payer{};
    std::shared_ptr<StagingRegion> region;
  };
  const Options options_;
  absl::flat_hash_map<SessionId, Owned> regions_;
  absl::flat_hash_map<DomainId, size_t> counts_;  // Regions that each domain pays for.
  absl::flat_hash_set<SessionId> refused_;        // Sessions that asked in vain, once or often.
  uint64_t refused_regions_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_STAGING_H_
