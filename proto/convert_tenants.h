// The tenants' part of convert: settings of tenants, as operators and coordinators send them.
#ifndef KVTIER_PROTO_CONVERT_TENANTS_H_
#define KVTIER_PROTO_CONVERT_TENANTS_H_

#include "absl/status/statusor.h"
#include "core/report.h"
#include "core/tenant_settings.h"
#include "kvtier/v1/coordinator.pb.h"

namespace kvtier::convert {

// Errors of all: kInvalidArgument, naming the field and the value.
// Reads a change: what the message does not name stays as it is.
absl::StatusOr<TenantChange> TenantChangeFrom(const v1::TenantSettings& wire);
// Reads settings: what the message does not name has its default. The settings are valid.
absl::StatusOr<ClusterTenants> ClusterTenantsFrom(const v1::ClusterTenants& wire);

v1::TenantSettings ToWire(const TenantChange& change);
v1::TenantSettings ToWire(const TenantSettings& settings);
v1::ClusterTenants ToWire(const ClusterTenants& tenants);

}  // namespace kvtier::convert

#endif  // KVTIER_PROTO_CONVERT_TENANTS_H_
