#include "agent/sessions/staging.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {

StagedSlot& StagedSlot::operator=(StagedSlot&& other) noexcept {
  if (this == &other) return *this;
  Release();
  region_ = std::move(other.region_);
  offset_ = other.offset_;
  bytes_ = other.bytes_;
  return *this;
}

void StagedSlot::Release() {
  if (region_ == nullptr) return;
  region_->ranges.Free(offset_, bytes_);
  region_.reset();
}

absl::StatusOr<std::shared_ptr<StagingRegion>> Staging::Make(SessionId session, DomainId payer) {
  const size_t count = counts_[payer];
  if (count > 0 && (count + 1) * options_.session_bytes > options_.max_domain_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tenant has ", count, " staging regions of ", options_.session_bytes,
        " bytes, and may have ", options_.max_domain_bytes, " bytes in all; close a session"));
  }
  KVT_ASSIGN_OR_RETURN(
      std::unique_ptr<SealedMemory> memory,
      SealedMemory::Create(absl::StrCat("kvtier-staging-", static_cast<uint64_t>(session)),
                           options_.session_bytes));
  return std::make_shared<StagingRegion>(std::move(memory));
}

absl::StatusOr<const SealedMemory*> Staging::RegionOf(SessionId session, DomainId payer) {
  if (!enabled()) {
    return absl::NotFoundError(
        "workers of this node write into the arena, not into staging regions (--worker_memory)");
  }
  if (const auto found = regions_.find(session); found != regions_.end()) {
    return found->second.region->memory.get();
  }
  absl::StatusOr<std::shared_ptr<StagingRegion>> region = Make(session, payer);
  if (!region.ok()) {
    if (refused_.insert(session).second) {
      ++refused_regions_;
      Log(LogLevel::kWarning,
          absl::StrCat("a session can put nothing; lower --staging_bytes or raise --host_bytes: ",
                       region.status().message()));
    }
    return region.status();
  }
  ++counts_[payer];
  const SealedMemory* const made = (*region)->memory.get();
  regions_.emplace(session, Owned{.payer = payer, .region = *std::move(region)});
  return made;
}

StagedSlot Staging::Take(SessionId session, uint64_t bytes) {
  const auto found = regions_.find(session);
  if (found == regions_.end()) return {};
  const std::shared_ptr<StagingRegion>& region = found->second.region;
  const std::optional<uint64_t> offset = region->ranges.Take(bytes);
  if (!offset) return {};
  return {region, *offset, bytes};
}

void Staging::Close(SessionId session) {
  refused_.erase(session);
  const auto found = regions_.find(session);
  if (found == regions_.end()) return;
  --counts_[found->second.payer];
  regions_.erase(found);
}

Staging::Report Staging::report() const {
  Report report{.session_bytes = options_.session_bytes,
                .regions = regions_.size(),
                .refused_regions = refused_regions_};
  for (const auto& [session, owned] : regions_) {
    report.reserved_bytes += owned.region->ranges.used_bytes();
  }
  return report;
}

void Staging::Audit() const {
  absl::flat_hash_map<DomainId, size_t> counts;
  for (const auto& [session, owned] : regions_) {
    ++counts[owned.payer];
    owned.region->ranges.Audit();
  }
  for (const auto& [payer, count] : counts_) {
    const auto counted = counts.find(payer);
    KVT_CHECK(count == (counted == counts.end() ? 0 : counted->second));
  }
}

}  // namespace kvtier
