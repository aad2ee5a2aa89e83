#include "agent/erase_tenant.h"

#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/tier.h"

namespace kvtier {

uint64_t TenantEraser::EvictFromMemory(const Tenant* tenant) {
  // What is on its way from the GPU to host memory does not arrive.
  if (parts_.gpu_offloader != nullptr) parts_.gpu_offloader->Forget();
  const uint64_t from_host = tenant == nullptr ? 0 : parts_.evictor->EvictDomain(tenant->domain);
  return from_host + parts_.evictor->EvictAll(Tier::kGpu);
}

Task<absl::StatusOr<TenantEraser::Erased>> TenantEraser::Erase(std::string tenant) {
  const Tenant* const configured = parts_.tenants->Find(tenant);
  Erased erased;
  // Before: what waits to be written to disk finds nothing to write. After: what came back
  // from disk meanwhile goes as well.
  erased.memory_blocks = EvictFromMemory(configured);
  if (parts_.disks == nullptr) co_return absl::FailedPreconditionError("this node has no disk");
  const absl::StatusOr<uint64_t> from_disks = co_await parts_.disks->EraseTenant(tenant);
  erased.memory_blocks += EvictFromMemory(configured);
  if (!from_disks.ok()) co_return from_disks.status();
  erased.disk_blocks = *from_disks;
  if (configured != nullptr) erased.held_blocks = parts_.index->blocks_in_host(configured->domain);
  Log(LogLevel::kInfo,
      absl::StrCat("tenant ", tenant, " erased: its key is destroyed, ", erased.disk_blocks,
                   " blocks on disk and ", erased.memory_blocks, " in memory dropped, ",
                   erased.held_blocks, " still held"));
  co_return erased;
}

}  // namespace kvtier
