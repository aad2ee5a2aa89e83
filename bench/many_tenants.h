// Measures what it costs a tenant's calls that a node has 64 tenants and not one.
#ifndef KVTIER_BENCH_MANY_TENANTS_H_
#define KVTIER_BENCH_MANY_TENANTS_H_

#include "absl/status/status.h"

namespace kvtier::bench {

// Starts an agent with one tenant and an agent with 64, each of which has a session and blocks, and
// prints PrintTenantsFigures() of one of these beside the lone tenant. Errors: kUnavailable, an
// agent did not answer as it must.
absl::Status PrintManyTenantsFigures();

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_MANY_TENANTS_H_
