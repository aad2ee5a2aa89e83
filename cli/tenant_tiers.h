// Parts of a node's tiers that its tenants have, for `kvtier tenants` and `kvtier status`: shares,
// use, and who took whose room.
#ifndef KVTIER_CLI_TENANT_TIERS_H_
#define KVTIER_CLI_TENANT_TIERS_H_

#include <cstddef>
#include <string>

#include "cli/json.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// Returns a row for each tenant that is on the node; nothing where none is.
std::string HostLines(const v1::ListTenantsResponse& response);
// Returns the same of the disks, and of the GPU pools of the tenants that have some; nothing where
// the node has none.
std::string DiskLines(const v1::ListTenantsResponse& response);
std::string GpuLines(const v1::ListTenantsResponse& response);
// Returns a line for each tenant that uses more host memory than it is guaranteed while others pay
// for it: how much it has, which part of another tenant's evictions were for it since the start,
// and which tenant lacks some of its guarantee now. Empty: there is none.
std::string TakenLines(const v1::ListTenantsResponse& response);

// Returns a row for each tenant and each tier that it has a part of, the tenants that use most host
// memory first, with the sign of kNearlyFullPercent, and then TakenLines(); nothing where no tenant
// is on the node. kMaxOccupancyTenants at most.
std::string OccupancyLines(const v1::ListTenantsResponse& response);
inline constexpr size_t kMaxOccupancyTenants = 10;

// Writes the tenants that are on the node as an array, with their parts of its tiers.
void WriteOccupancy(const v1::ListTenantsResponse& response, JsonWriter* json);

// Write the parts of a tenant of `response` as objects: of host memory, and of the disks and the
// GPU pools where it has some.
void WriteHost(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant,
               JsonWriter* json);
void WriteDiskAndGpu(const v1::ListTenantsResponse& response, const v1::TenantReport& tenant,
                     JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANT_TIERS_H_
