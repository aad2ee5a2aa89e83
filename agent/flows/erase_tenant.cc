#include "agent/flows/erase_tenant.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/tier.h"

namespace kvtier {

absl::Status TenantEraser::CheckIsKnown(const std::string& tenant) const {
  if (tenant.empty()) return absl::InvalidArgumentError("tenant: empty; must be a name");
  if (parts_.tenants->Find(tenant) != nullptr) return absl::OkStatus();
  if (parts_.disks != nullptr) {
    KVT_ASSIGN_OR_RETURN(const bool known, parts_.disks->KnowsTenant(tenant));
    if (known) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      "tenant: '", tenant,
      "' is not configured on this node, and no disk of it has a key of that name; nothing was "
      "dropped"));
}

Task<uint64_t> TenantEraser::EvictFromMemory(DomainId domain) {
  // Keeps what is on its way to memory from arriving.
  parts_.index->CountErasure(domain);
  // Ends the disks' promises: the blocks are neither written nor held for the disks any more.
  if (parts_.offloader != nullptr) parts_.offloader->Forget(domain);
  while (parts_.kept->EndSome(domain, kEndedPerSweep)) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now());
  }
  const uint64_t from_host = co_await parts_.evictor->EvictDomain(parts_.executor, domain);
  const uint64_t from_gpus = co_await parts_.gpus->EvictDomain(domain);
  co_return from_host + from_gpus;
}

uint64_t TenantEraser::HeldBlocksOf(const Tenant& tenant) const {
  return parts_.index->blocks_in_host(tenant.domain) + parts_.index->condemned_in(tenant.domain) +
         parts_.gpus->BlocksNotInHost(tenant.domain);
}

Task<absl::StatusOr<TenantEraser::Erased>> TenantEraser::Erase(std::string tenant) {
  KVT_CO_RETURN_IF_ERROR(CheckIsKnown(tenant));
  const Tenant* const configured = parts_.tenants->Find(tenant);
  Erased erased;
  // Blocks are evicted before, so that writes to disk that wait find nothing to write, and after,
  // because blocks may have come back from disk meanwhile.
  if (configured != nullptr) erased.memory_blocks = co_await EvictFromMemory(configured->domain);
  DiskSet::TenantErasure on_disks;
  if (parts_.disks != nullptr) {
    on_disks = co_await parts_.disks->EraseTenant(tenant);
  } else {
    on_disks.status =
        absl::FailedPreconditionError("this node has no disk, so there is no key to destroy");
  }
  erased.disk_blocks = on_disks.blocks;
  if (configured != nullptr) {
    erased.memory_blocks += co_await EvictFromMemory(configured->domain);
    erased.held_blocks = HeldBlocksOf(*configured);
  }
  const std::string done =
      absl::StrCat(erased.disk_blocks, " blocks on disk and ", erased.memory_blocks,
                   " in memory dropped, ", erased.held_blocks, " still held");
  if (!on_disks.status.ok()) {
    co_return absl::Status(
        on_disks.status.code(),
        absl::StrCat("tenant '", tenant, "' is not erased: ", on_disks.status.message(),
                     "; done on ", on_disks.disks, " disks: ", done));
  }
  Log(LogLevel::kInfo, absl::StrCat("tenant ", tenant, " erased: its key is destroyed, ", done));
  co_return erased;
}

Task<absl::StatusOr<uint64_t>> TenantEraser::EraseOneByOne(const Tenant* tenant) {
  const TenantTag owner = TenantTagOf(tenant->name);
  uint64_t erased = 0;
  absl::Status failed;
  for (size_t i = 0; i < parts_.disks->disk_count(); ++i) {
    if (parts_.disks->serves(i)) continue;
    failed.Update(absl::UnavailableError(
        absl::StrCat("a disk is out of service and may have blocks of tenant '", tenant->name,
                     "'; call again when it is back")));
  }
  bool more = true;
  for (DiskWalk at; more;) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now());
    std::vector<BlockKey> keys;
    more = parts_.disks->KeysFrom(&at, kDiskKeysPerTurn, &keys);
    for (const BlockKey& key : keys) {
      if (parts_.disks->OwnerOf(key) != owner) continue;
      const absl::Status forgotten = co_await parts_.disks->Erase(key);
      failed.Update(forgotten);
      if (forgotten.ok()) ++erased;
    }
  }
  if (!failed.ok()) co_return failed;
  co_return erased;
}

Task<absl::StatusOr<TenantEraser::Erased>> TenantEraser::EraseAll(const Tenant* tenant) {
  Erased erased;
  erased.memory_blocks = co_await EvictFromMemory(tenant->domain);
  absl::Status on_disks;
  if (parts_.disks != nullptr && parts_.sealed) {
    const DiskSet::TenantErasure erasure = co_await parts_.disks->EraseTenant(tenant->name);
    on_disks = erasure.status;
    erased.disk_blocks = erasure.blocks;
  } else if (parts_.disks != nullptr) {
    const absl::StatusOr<uint64_t> blocks = co_await EraseOneByOne(tenant);
    on_disks = blocks.status();
    erased.disk_blocks = blocks.value_or(0);
  }
  erased.memory_blocks += co_await EvictFromMemory(tenant->domain);
  erased.held_blocks = HeldBlocksOf(*tenant);
  if (!on_disks.ok()) co_return on_disks;
  co_return erased;
}

struct TenantEraser::Erasing {
  explicit Erasing(Executor* executor) : done(executor) {}
  Event done;
  absl::StatusOr<Erased> erased;
};

Task<void> TenantEraser::Run(std::string tenant, std::shared_ptr<Erasing> erasing) {
  erasing->erased = co_await Erase(std::move(tenant));
  erasing->done.Set();
}

Task<absl::StatusOr<TenantEraser::Erased>> TenantEraser::EraseBy(std::string tenant,
                                                                 absl::Time deadline) {
  const auto erasing = std::make_shared<Erasing>(parts_.executor);
  parts_.scope->Spawn(Run(tenant, erasing));
  if (co_await parts_.waits->Until(&erasing->done, deadline)) co_return erasing->erased;
  const std::string text = absl::StrCat("tenant '", tenant, "' may not be erased yet");
  if (parts_.waits->ended()) {
    co_return absl::UnavailableError(
        absl::StrCat(text, ": the agent is stopping; call again when it has restarted"));
  }
  co_return absl::DeadlineExceededError(
      absl::StrCat(text, ": it takes longer than the call may; call again"));
}

}  // namespace kvtier
