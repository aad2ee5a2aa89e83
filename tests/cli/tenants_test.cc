// `kvtier tenants` as people and programs read it.
#include "cli/tenants.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace kvtier::cli {
namespace {

void SetShare(uint64_t used, uint64_t guaranteed, uint64_t limit, v1::TenantShare* share) {
  share->set_used(used);
  share->set_guaranteed(guaranteed);
  share->set_limit(limit);
}

// Two tenants: one has more sessions than it is guaranteed, and one has nothing.
v1::ListTenantsResponse TwoTenants() {
  v1::ListTenantsResponse response;
  response.set_node_id("n1");
  v1::TenantReport* const acme = response.add_tenants();
  acme->set_name("acme");
  SetShare(700, 256, 1024, acme->mutable_sessions());
  SetShare(12'000, 65'536, 262'144, acme->mutable_leases());
  SetShare(64, 16'384, 65'536, acme->mutable_reservations());
  acme->set_host_capacity_bytes(uint64_t{32} << 30);
  acme->set_host_used_bytes(uint64_t{24} << 30);
  acme->set_host_blocks(12'288);
  acme->mutable_kept()->set_prefixes(3);
  acme->mutable_kept()->set_bytes(uint64_t{2} << 30);
  v1::TenantDisk* const disk = acme->mutable_disk();
  disk->set_used_bytes(uint64_t{600} << 30);
  disk->set_guaranteed_bytes(uint64_t{256} << 30);
  disk->set_maximum_bytes(UINT64_MAX);
  disk->set_fair_bytes(uint64_t{510} << 30);
  disk->set_evictions(1200);
  disk->set_evictions_suffered(40);
  disk->set_evictions_caused(7);
  v1::TenantReport* const other = response.add_tenants();
  other->set_name("other");
  SetShare(0, 256, 1024, other->mutable_sessions());
  SetShare(0, 65'536, 262'144, other->mutable_leases());
  SetShare(0, 16'384, 65'536, other->mutable_reservations());
  other->set_host_capacity_bytes(uint64_t{32} << 30);
  other->mutable_disk()->set_guaranteed_bytes(uint64_t{256} << 30);
  other->mutable_disk()->set_maximum_bytes(uint64_t{300} << 30);
  return response;
}

TEST(TenantsTable, HasARowForEachTenantAndTheNodeBelow) {
  EXPECT_EQ(TenantsTable({{"unix:/a.sock", TwoTenants()},
                          {"unix:/b.sock", absl::UnavailableError("connection refused")}}),
            R"(AGENT  n1  unix:/a.sock
  TENANT    SESSIONS            LEASES  RESERVATIONS  HOST MEMORY      USED    FULL  BLOCKS  PINS      KEPT
  acme    700 of 256  12,000 of 65,536  64 of 16,384     32.0 GiB  24.0 GiB  75.0 %  12,288     3  2.00 GiB
  other     0 of 256       0 of 65,536   0 of 16,384     32.0 GiB       0 B   0.0 %       0     0       0 B
  the node: 700 of 1,024 sessions, 12,000 of 262,144 leases, 64 of 65,536 reservations
  DISK      USED  GUARANTEED  FAIR SHARE  MAXIMUM  EVICTED  FOR OTHERS  OF OTHERS
  acme   600 GiB     256 GiB     510 GiB        -    1,200          40          7
  other      0 B     256 GiB         0 B  300 GiB        0           0          0

AGENT  unix:/b.sock  unreachable (connection refused)
)");
}

TEST(TenantsJson, IsAStableSchema) {
  v1::ListTenantsResponse one = TwoTenants();
  one.mutable_tenants()->RemoveLast();
  EXPECT_EQ(TenantsJson({{"unix:/a.sock", one}}), R"({
  "schema_version": 1,
  "agents": [
    {
      "address": "unix:/a.sock",
      "node_id": "n1",
      "tenants": [
        {
          "name": "acme",
          "sessions": {
            "used": 700,
            "guaranteed": 256,
            "limit": 1024
          },
          "leases": {
            "used": 12000,
            "guaranteed": 65536,
            "limit": 262144
          },
          "reservations": {
            "used": 64,
            "guaranteed": 16384,
            "limit": 65536
          },
          "host": {
            "capacity_bytes": 34359738368,
            "used_bytes": 25769803776,
            "blocks": 12288
          },
          "pins": {
            "count": 3,
            "bytes": 2147483648
          },
          "disk": {
            "used_bytes": 644245094400,
            "guaranteed_bytes": 274877906944,
            "maximum_bytes": null,
            "fair_bytes": 547608330240,
            "evictions": 1200,
            "evictions_suffered": 40,
            "evictions_caused": 7
          }
        }
      ]
    }
  ]
}
)");
}

}  // namespace
}  // namespace kvtier::cli
