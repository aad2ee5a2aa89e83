// Tests `kvtier pins` and `kvtier prefix drop` as people and programs read them.
#include "cli/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace kvtier::cli {
namespace {

using ::testing::HasSubstr;

void SetUse(uint64_t prefixes, uint64_t blocks, uint64_t bytes, v1::KeptUse* use) {
  use->set_prefixes(prefixes);
  use->set_blocks(blocks);
  use->set_bytes(bytes);
}

// Returns an answer in which one tenant keeps two prefixes that share blocks, and one keeps
// nothing.
v1::ListTenantsKeptResponse TwoTenants() {
  v1::ListTenantsKeptResponse response;
  response.set_node_id("n1");
  v1::TenantKept* const acme = response.add_tenants();
  acme->set_tenant("acme");
  for (const uint64_t id : {3, 7}) {
    v1::KeptPrefix* const prefix = acme->add_prefixes();
    prefix->set_id(id);
    prefix->set_blocks(id * 100);
    prefix->set_bytes(id * 100 << 20);
    prefix->set_ttl_left_ms(id == 3 ? 303'000 : 59'500);
  }
  SetUse(2, 1'000, uint64_t{700} << 20, acme->mutable_used());
  SetUse(256, 32'768, uint64_t{8} << 30, acme->mutable_quota());
  v1::TenantKept* const other = response.add_tenants();
  other->set_tenant("other");
  SetUse(256, 32'768, uint64_t{8} << 30, other->mutable_quota());
  return response;
}

TEST(PinsTable, HasARowForEachPinAndTheQuotasBelow) {
  EXPECT_EQ(PinsTable({{"unix:/a.sock", TwoTenants()},
                       {"unix:/b.sock", absl::UnavailableError("connection refused")}}),
            R"(AGENT  n1  unix:/a.sock
  TENANT  PIN  BLOCKS    BYTES  TIME LEFT
  acme      3     300  300 MiB  5 min 3 s
  acme      7     700  700 MiB     59.5 s
  acme: 2 of 256 pins, 1,000 of 32,768 blocks, 700 MiB of 8.00 GiB
  other: 0 of 256 pins, 0 of 32,768 blocks, 0 B of 8.00 GiB

AGENT  unix:/b.sock  unreachable (connection refused)
)");
}

TEST(PinsJson, IsAStableSchema) {
  v1::ListTenantsKeptResponse one = TwoTenants();
  one.mutable_tenants()->RemoveLast();
  one.mutable_tenants(0)->mutable_prefixes()->RemoveLast();
  EXPECT_EQ(PinsJson({{"unix:/a.sock", one}}), R"({
  "schema_version": 1,
  "agents": [
    {
      "address": "unix:/a.sock",
      "node_id": "n1",
      "tenants": [
        {
          "name": "acme",
          "pins": [
            {
              "id": 3,
              "blocks": 300,
              "bytes": 314572800,
              "left_seconds": 303.0
            }
          ],
          "used": {
            "pins": 2,
            "blocks": 1000,
            "bytes": 734003200
          },
          "quota": {
            "pins": 256,
            "blocks": 32768,
            "bytes": 8589934592
          }
        }
      ]
    }
  ]
}
)");
}

TEST(PinsDropped, SayHowMany) {
  v1::EndTenantKeptResponse none;
  v1::EndTenantKeptResponse two;
  two.set_ended_prefixes(2);
  EXPECT_EQ(EndedTable({{"a", two}, {"b", none}}), R"(AGENT  DROPPED PINS
a                 2
b                 0  there was none
)");
  EXPECT_THAT(EndedJson({{"a", two}}), HasSubstr("\"dropped_pins\": 2\n"));
}

TEST(PrefixDropped, SaysWhatIsToBeDoneAboutTheRest) {
  v1::DropPrefixResponse all;
  all.set_deleted_blocks(12'288);
  v1::DropPrefixResponse held = all;
  held.set_held_blocks(2);
  v1::DropPrefixResponse more = held;
  more.set_more(true);
  EXPECT_EQ(DroppedTable({{"a", all}, {"b", held}, {"c", more}}), R"(AGENT  DROPPED  STILL HELD
a       12,288           0
b       12,288           2  drop again when they are released
c       12,288           2  more is here: drop again
)");
  EXPECT_THAT(DroppedJson({{"a", more}}), HasSubstr(R"("dropped_blocks": 12288,
      "held_blocks": 2,
      "more": true)"));
}

}  // namespace
}  // namespace kvtier::cli
