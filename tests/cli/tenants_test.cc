// Tests `kvtier tenants` as people and programs read it.
#include "cli/tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cli/tenant_shares.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void SetShare(uint64_t used, uint64_t guaranteed, uint64_t limit, v1::TenantShare* share) {
  share->set_used(used);
  share->set_guaranteed(guaranteed);
  share->set_limit(limit);
}

// Returns two tenants: one has more sessions than it is guaranteed, and one has nothing.
v1::ListTenantsResponse TwoTenants() {
  v1::ListTenantsResponse response;
  response.set_node_id("n1");
  v1::TenantReport* const acme = response.add_tenants();
  acme->set_name("acme");
  acme->set_state("serving");
  acme->set_settings_source("node");
  SetShare(700, 256, 1024, acme->mutable_sessions());
  acme->mutable_sessions()->set_refused(12);
  acme->mutable_swap()->set_refused(1);
  acme->set_refused_pins(5);
  acme->mutable_hits()->set_gpu(10);
  acme->mutable_hits()->set_host(900);
  acme->mutable_hits()->set_disk(50);
  acme->mutable_hits()->set_peer(10);
  acme->mutable_hits()->set_misses(30);
  SetShare(12'000, 65'536, 262'144, acme->mutable_leases());
  SetShare(64, 16'384, 65'536, acme->mutable_reservations());
  acme->set_host_capacity_bytes(uint64_t{50} << 30);
  acme->set_host_used_bytes(uint64_t{48} << 30);
  acme->set_host_blocks(12'288);
  acme->mutable_kept()->set_prefixes(3);
  acme->mutable_kept()->set_bytes(uint64_t{2} << 30);
  v1::TenantHost* const host = acme->mutable_host();
  host->set_guaranteed_bytes(uint64_t{20} << 30);
  host->set_maximum_bytes(UINT64_MAX);
  host->set_fair_bytes(uint64_t{44} << 30);
  host->set_evictions(900);
  host->set_evictions_caused(46);
  v1::TenantTaken* const taken = host->add_taken();
  taken->set_tenant("other");
  taken->set_blocks(46);
  v1::TenantDisk* const disk = acme->mutable_disk();
  disk->set_used_bytes(uint64_t{600} << 30);
  disk->set_guaranteed_bytes(uint64_t{256} << 30);
  disk->set_maximum_bytes(UINT64_MAX);
  disk->set_fair_bytes(uint64_t{510} << 30);
  disk->set_evictions(1200);
  disk->set_evictions_suffered(40);
  disk->set_evictions_caused(7);
  v1::TenantGpu* const gpu = acme->mutable_gpu();
  gpu->set_capacity_bytes(uint64_t{30} << 30);
  gpu->set_used_bytes(uint64_t{29} << 30);
  gpu->set_part_bytes(uint64_t{40} << 30);
  gpu->set_guaranteed_bytes(uint64_t{40} << 30);
  gpu->set_maximum_bytes(UINT64_MAX);
  v1::TenantReport* const other = response.add_tenants();
  other->set_name("other");
  other->set_state("shut");
  other->set_settings_source("default");
  SetShare(0, 256, 1024, other->mutable_sessions());
  SetShare(0, 65'536, 262'144, other->mutable_leases());
  SetShare(0, 16'384, 65'536, other->mutable_reservations());
  other->set_host_capacity_bytes(uint64_t{14} << 30);
  other->mutable_host()->set_guaranteed_bytes(uint64_t{44} << 30);
  other->mutable_host()->set_maximum_bytes(uint64_t{48} << 30);
  other->mutable_host()->set_evictions(50);
  other->mutable_host()->set_evictions_suffered(46);
  other->mutable_disk()->set_guaranteed_bytes(uint64_t{256} << 30);
  other->mutable_disk()->set_maximum_bytes(uint64_t{300} << 30);
  for (const auto& [tier, gib] : {std::pair(v1::TIER_GPU, 30), std::pair(v1::TIER_HOST, 50),
                                  std::pair(v1::TIER_DISK, 1024)}) {
    v1::TierUsage* const usage = response.add_tiers();
    usage->set_tier(tier);
    usage->set_capacity_bytes(static_cast<uint64_t>(gib) << 30);
  }
  return response;
}

TEST(TenantsTable, HasARowForEachTenantAndTheNodeBelow) {
  EXPECT_EQ(TenantsTable({{"unix:/a.sock", TwoTenants()},
                          {"unix:/b.sock", absl::UnavailableError("connection refused")}}),
            R"(AGENT  n1  unix:/a.sock
  TENANT  STATE      HITS  THROTTLED    SESSIONS            LEASES  RESERVATIONS  PINS      KEPT
  acme    serving  97.0 %         18  700 of 256  12,000 of 65,536  64 of 16,384     3  2.00 GiB
  other   shut          -          0    0 of 256       0 of 65,536   0 of 16,384     0       0 B
  the node: 700 of 1,024 sessions, 12,000 of 262,144 leases, 64 of 65,536 reservations
  HOST        HAS      USED  BLOCKS  GUARANTEED       FULL  FAIR SHARE   MAXIMUM      LENT  BORROWED  EVICTED  FOR OTHERS  OF OTHERS
  acme   50.0 GiB  48.0 GiB  12,288    20.0 GiB  240.0 % !    44.0 GiB         -       0 B  30.0 GiB      900           0         46
  other  14.0 GiB       0 B       0    44.0 GiB      0.0 %         0 B  48.0 GiB  30.0 GiB       0 B       50          46          0
  DISK      USED  GUARANTEED       FULL  FAIR SHARE  MAXIMUM     LENT  BORROWED  EVICTED  FOR OTHERS  OF OTHERS
  acme   600 GiB     256 GiB  234.4 % !     510 GiB        -      0 B   344 GiB    1,200          40          7
  other      0 B     256 GiB      0.0 %         0 B  300 GiB  256 GiB       0 B        0           0          0
  GPU        HAS      USED  IS TO HAVE  GUARANTEED      FULL  MAXIMUM      LENT  BORROWED
  acme  30.0 GiB  29.0 GiB    40.0 GiB    40.0 GiB  96.7 % !        -  10.0 GiB       0 B
  tenant acme: 50.0 GiB of host memory, 2.5x its guarantee, 92.0 % of evictions of tenant other

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
      "settings_store": null,
      "settings_version": 0,
      "tenants": [
        {
          "name": "acme",
          "state": "serving",
          "settings_source": "node",
          "hits": {
            "gpu": 10,
            "host": 900,
            "disk": 50,
            "peer": 10,
            "misses": 30
          },
          "throttled": 18,
          "sessions": {
            "used": 700,
            "guaranteed": 256,
            "limit": 1024,
            "refused": 12
          },
          "leases": {
            "used": 12000,
            "guaranteed": 65536,
            "limit": 262144,
            "refused": 0
          },
          "reservations": {
            "used": 64,
            "guaranteed": 16384,
            "limit": 65536,
            "refused": 0
          },
          "host": {
            "capacity_bytes": 53687091200,
            "used_bytes": 51539607552,
            "blocks": 12288,
            "guaranteed_bytes": 21474836480,
            "maximum_bytes": null,
            "fair_bytes": 47244640256,
            "nearly_full": true,
            "lent_bytes": 0,
            "borrowed_bytes": 32212254720,
            "evictions": 900,
            "evictions_suffered": 0,
            "evictions_caused": 46,
            "taken": [
              {
                "tenant": "other",
                "blocks": 46
              }
            ]
          },
          "pins": {
            "count": 3,
            "bytes": 2147483648,
            "refused": 5
          },
          "disk": {
            "used_bytes": 644245094400,
            "guaranteed_bytes": 274877906944,
            "maximum_bytes": null,
            "fair_bytes": 547608330240,
            "nearly_full": false,
            "lent_bytes": 0,
            "borrowed_bytes": 369367187456,
            "evictions": 1200,
            "evictions_suffered": 40,
            "evictions_caused": 7
          },
          "gpu": {
            "capacity_bytes": 32212254720,
            "used_bytes": 31138512896,
            "part_bytes": 42949672960,
            "guaranteed_bytes": 42949672960,
            "maximum_bytes": null,
            "nearly_full": true,
            "lent_bytes": 10737418240,
            "borrowed_bytes": 0
          }
        }
      ]
    }
  ]
}
)");
}

TEST(TenantsTable, ATenantThatIsOnlySaidHasNoNumbers) {
  v1::ListTenantsResponse response;
  response.set_node_id("n1");
  v1::TenantReport* const later = response.add_tenants();
  later->set_name("later");
  later->set_state("settings");
  response.set_settings_failure("tenant_settings is damaged");
  EXPECT_EQ(TenantsTable({{"unix:/a.sock", response}}), R"(AGENT  n1  unix:/a.sock
  TENANT  STATE     HITS  THROTTLED  SESSIONS  LEASES  RESERVATIONS  PINS  KEPT
  later   settings     -          -         -       -             -     -     -
  settings were lost: tenant_settings is damaged
)");
}

// The limits were those of the last tenant, which has none if it has only settings.
TEST(TenantsTable, LimitsOfTheNodeAreThoseOfTheTenantsThatAreHere) {
  v1::ListTenantsResponse response = TwoTenants();
  v1::TenantReport* const later = response.add_tenants();
  later->set_name("later");
  later->set_state("settings");
  EXPECT_THAT(TenantsTable({{"unix:/a.sock", response}}),
              HasSubstr("  the node: 700 of 1,024 sessions, 12,000 of 262,144 leases, 64 of 65,536 "
                        "reservations\n"));
}

v1::SetTenantResponse Described() {
  v1::SetTenantResponse response;
  response.set_node_id("n1");
  response.set_settings_version(3);
  v1::TenantReport* const acme = response.mutable_tenant();
  acme->set_name("acme");
  acme->set_state("serving");
  acme->set_settings_source("cluster");
  acme->mutable_settings()->set_name("acme");
  v1::TenantSetting* const weight = acme->mutable_settings()->add_values();
  weight->set_tier(v1::TIER_HOST);
  weight->set_field(v1::SHARE_WEIGHT);
  weight->set_value(5);
  v1::TierShareReport* const host = acme->add_shares();
  host->set_tier(v1::TIER_HOST);
  host->set_guaranteed_bytes(uint64_t{10} << 30);
  host->set_weight(5);
  v1::TierShareReport* const disk = acme->add_shares();
  disk->set_tier(v1::TIER_DISK);
  disk->set_guaranteed_bytes(0);
  disk->set_maximum_bytes(uint64_t{1} << 40);
  disk->set_weight(1);
  SetShare(700, 256, 1024, acme->mutable_sessions());
  SetShare(uint64_t{3} << 20, uint64_t{60} << 20, uint64_t{240} << 20, acme->mutable_call_bytes());
  SetShare(9000, 4096, 16'384, acme->mutable_loads());
  SetShare(1, 8, 32, acme->mutable_fetches());
  acme->mutable_call_bytes()->set_refused(3);
  acme->mutable_hits()->set_host(900);
  acme->mutable_hits()->set_misses(1'200);
  return response;
}

TEST(TenantTable, SaysWhatHoldsAndWhoSaidIt) {
  EXPECT_EQ(TenantTable({{"unix:/a.sock", Described()},
                         {"unix:/b.sock", absl::NotFoundError("no tenant is called 'acme'")}}),
            R"(AGENT  n1  unix:/a.sock
  acme (serving): host_weight=5, said by: cluster
  TIER  GUARANTEED   MAXIMUM  WEIGHT
  host    10.0 GiB         -       5
  disk         0 B  1.00 TiB       1
  OF THE NODE'S       HAS  GUARANTEED    LIMIT  REFUSED
  sessions            700         256    1,024        0
  call_bytes     3.00 MiB    60.0 MiB  240 MiB        3
  loads             9,000       4,096   16,384        0
  fetches               1           8       32        0
  blocks asked for, since the start: 0 in GPU pools, 900 in host memory, 0 on disk, 0 on other nodes, 1,200 nowhere
  version of the cluster's settings: 3

unix:/b.sock  NOT_FOUND: no tenant is called 'acme'
)");
}

TEST(TenantJson, IsAStableSchema) {
  v1::SetTenantResponse one = Described();
  one.mutable_tenant()->mutable_shares()->RemoveLast();
  one.mutable_tenant()->clear_sessions();
  one.mutable_tenant()->clear_loads();
  EXPECT_EQ(TenantJson({{"unix:/a.sock", one}}), R"({
  "schema_version": 1,
  "agents": [
    {
      "address": "unix:/a.sock",
      "node_id": "n1",
      "tenant": "acme",
      "state": "serving",
      "settings_source": "cluster",
      "settings_version": 3,
      "settings": {
        "host_weight": 5
      },
      "shares": [
        {
          "tier": "host",
          "guaranteed_bytes": 10737418240,
          "maximum_bytes": null,
          "weight": 5
        }
      ],
      "numbers": {
        "call_bytes": {
          "used": 3145728,
          "guaranteed": 62914560,
          "limit": 251658240,
          "refused": 3
        },
        "fetches": {
          "used": 1,
          "guaranteed": 8,
          "limit": 32,
          "refused": 0
        }
      },
      "hits": {
        "gpu": 0,
        "host": 900,
        "disk": 0,
        "peer": 0,
        "misses": 1200
      }
    }
  ]
}
)");
}

TEST(TenantTable, HasALineAboutSequencesThatAreSwappedOut) {
  v1::SetTenantResponse one = Described();
  v1::TenantSwap* const swap = one.mutable_tenant()->mutable_swap();
  swap->set_sequences(3);
  swap->set_blocks(120);
  swap->set_bytes(uint64_t{240} << 20);
  swap->set_quota_bytes(uint64_t{4} << 30);
  swap->set_swapped_out(40);
  swap->set_swapped_in(35);
  swap->set_refused(2);
  swap->set_dropped(1);
  EXPECT_THAT(TenantTable({{"unix:/a.sock", one}}),
              HasSubstr("  swapped out: 3 sequences, 120 blocks, 240 MiB of 4.00 GiB; since the "
                        "start 40 out, 35 in, 2 refused, 1 dropped\n"));
  const std::string json = TenantJson({{"unix:/a.sock", one}});
  EXPECT_THAT(json, HasSubstr("\"swap\": {"));
  for (const char* const member : {"\"sequences\": 3", "\"blocks\": 120", "\"bytes\": 251658240",
                                   "\"quota_bytes\": 4294967296", "\"swapped_out\": 40",
                                   "\"swapped_in\": 35", "\"refused\": 2", "\"dropped\": 1"}) {
    EXPECT_THAT(json, HasSubstr(member));
  }
}

TEST(TenantTable, SaysThatSettingsWaitForASecret) {
  v1::SetTenantResponse one;
  one.set_node_id("n1");
  one.mutable_tenant()->set_name("newt");
  one.mutable_tenant()->set_state("settings");
  const std::string line =
      "  newt has settings and no secret on this node: it is made when its secret is there "
      "(--secret_file)\n";
  EXPECT_THAT(TenantTable({{"unix:/a.sock", one}}), HasSubstr(line));
  one.clear_node_id();
  EXPECT_THAT(TenantTable({{"c:7300", one}}), Not(HasSubstr("secret"))) << "a coordinator";
  EXPECT_THAT(TenantTable({{"unix:/a.sock", Described()}}), Not(HasSubstr("secret")));
}

TEST(TenantTable, SaysHowOftenItMetTheQuotaOfPins) {
  v1::SetTenantResponse one = Described();
  one.mutable_tenant()->mutable_kept()->set_prefixes(3);
  one.mutable_tenant()->mutable_kept()->set_bytes(uint64_t{2} << 30);
  one.mutable_tenant()->set_refused_pins(1'234);
  EXPECT_THAT(TenantTable({{"unix:/a.sock", one}}),
              HasSubstr("  pins: 3, 2.00 GiB; since the start 1,234 refused, or kept in part\n"));
  EXPECT_THAT(TenantJson({{"unix:/a.sock", one}}), HasSubstr("\"refused_pins\": 1234"));
}

TEST(DropTenantTable, SaysWhatWentAndWhatIsStillHeld) {
  v1::DropTenantResponse response;
  response.set_sessions(2);
  response.set_disk_blocks(1000);
  response.set_memory_blocks(30);
  response.set_held_bytes(4096);
  EXPECT_EQ(DropTenantTable({{"unix:/a.sock", response}}),
            R"(ASKED         SESSIONS ENDED  ON DISK  IN MEMORY  STILL HELD  SETTINGS
unix:/a.sock               2    1,000         30    4.00 KiB  none      erased when it is released
)");
}

TEST(ClusterTenantsTable, HasARowForEachTenantThatIsSaid) {
  v1::ListTenantsResponse response;
  EXPECT_THAT(ClusterTenantsTable(response), HasSubstr("unknown: kvtier tenants init"));
  EXPECT_THAT(ClusterTenantsJson(response), HasSubstr("\"settings_store\": null"));
  response.set_settings_store(0xa0);
  response.set_settings_version(1);
  EXPECT_EQ(ClusterTenantsTable(response),
            "Nothing is set.\nversion 1 of store 00000000000000a0\n");
  *response.add_tenants() = Described().tenant();
  response.set_settings_version(3);
  EXPECT_EQ(ClusterTenantsTable(response), R"(TENANT  SETTINGS
acme    host_weight=5
version 3 of store 00000000000000a0
)");
  EXPECT_THAT(ClusterTenantsJson(response), HasSubstr("\"settings_store\": \"00000000000000a0\""));
}

}  // namespace
}  // namespace kvtier::cli
