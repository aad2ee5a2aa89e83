// Parts of a node's tiers that its tenants have, for `kvtier tenants` and `kvtier status`: shares,
// use, and who took whose room.
#ifndef KVTIER_CLI_TENANT_TIERS_H_
#define KVTIER_CLI_TENANT_TIERS_H_

#include <cstddef>
#include <string>

#include "cli/json.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// A tenant that has so many percent of its guarantee, or more, is marked: what it puts from then on
// costs it blocks, or is lent.
inline constexpr int kNearlyFullPercent = 90;

// Returns a row for each tenant that is on the node; nothing where none is.
std::string HostLines(const v1::ListTenantsResponse& response);
// Returns the same of the disks, and of the GPU pools of the tenants that have some; nothing where
// the node has none.
std::string DiskLines(const v1::ListTenantsResponse& response);
std::string GpuLines(const v1::ListTenantsResponse& response);
// Returns a line for each tenant that has more host memory than its guarantee or took some of
// others: how much it has, and whose blocks left for it. Empty: there is none.
std::string TakenLines(const v1::ListTenantsResponse& response);

// Returns a row for each tenant and its host memory, those that use most first, with the sign of
// kNearlyFullPercent, and then TakenLines(); nothing where fewer than two tenants are.
// kMaxOccupancyRows at most.
std::string OccupancyLines(const v1::ListTenantsResponse& response);
inline constexpr size_t kMaxOccupancyRows = 10;

// Writes the tenants that have host memory as an array.
void WriteOccupancy(const v1::ListTenantsResponse& response, JsonWriter* json);

// Writes a tenant's host memory, disks and GPU pools as objects.
void WriteHost(const v1::TenantReport& tenant, JsonWriter* json);
void WriteDisk(const v1::TenantDisk& disk, JsonWriter* json);
void WriteGpu(const v1::TenantGpu& gpu, JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANT_TIERS_H_
