// Tests share groups in `kvtier tenants` and `kvtier tenants describe`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "cli/tenant_shares.h"
#include "cli/tenants.h"

namespace kvtier::cli {
namespace {

// Returns a group of two members, which has no share of its own.
v1::TenantReport Prompts() {
  v1::TenantReport prompts;
  prompts.set_name("prompts");
  prompts.set_state("settings");
  prompts.set_settings_source("node");
  prompts.mutable_settings()->set_name("prompts");
  for (const auto& [tenant, access] :
       {std::pair("acme", v1::GROUP_ACCESS_WRITE), std::pair("beta", v1::GROUP_ACCESS_READ)}) {
    v1::GroupMember* const member = prompts.mutable_settings()->add_members();
    member->set_tenant(tenant);
    member->set_access(access);
  }
  return prompts;
}

TEST(ShareGroups, AreListedWithTheirMembers) {
  v1::ListTenantsResponse response;
  response.set_node_id("n1");
  *response.add_tenants() = Prompts();
  EXPECT_EQ(TenantsTable({{"unix:/a.sock", response}}), R"(AGENT  n1  unix:/a.sock
  TENANT   STATE     HITS  THROTTLED  SESSIONS  LEASES  RESERVATIONS  PINS  KEPT
  prompts  settings     -          -         -       -             -     -     -
  share group prompts: acme:write,beta:read
)");
  EXPECT_NE(TenantsJson({{"unix:/a.sock", response}}).find(R"("members": {
            "acme": "write",
            "beta": "read"
          })"),
            std::string::npos);
  response.set_settings_store(0xa0);
  response.set_settings_version(4);
  EXPECT_EQ(ClusterTenantsTable(response), R"(TENANT   SETTINGS
prompts  members=acme:write,beta:read
version 4 of store 00000000000000a0
)");
}

TEST(ShareGroups, AreDescribedWithTheirMembers) {
  v1::SetTenantResponse response;
  response.set_node_id("n1");
  *response.mutable_tenant() = Prompts();
  EXPECT_EQ(TenantTable({{"unix:/a.sock", response}}), R"(AGENT  n1  unix:/a.sock
  prompts (settings): members=acme:write,beta:read, said by: node
  prompts has settings and no secret on this node: it is made when its secret is there (--secret_file)
  version of the cluster's settings: 0
)");
  EXPECT_NE(TenantJson({{"unix:/a.sock", response}}).find(R"("settings": {
        "members": {
          "acme": "write",
          "beta": "read"
        }
      })"),
            std::string::npos);
}

}  // namespace
}  // namespace kvtier::cli
