// Tests kept prefixes beside a plain reference, by random operations of two tenants on one agent.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/flows/keep_prefix.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/patience.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kSlots = 64;
constexpr size_t kQuota = kSlots / 4;  // Blocks.
constexpr uint64_t kChain = 10;        // Block n follows block n - 1, but every tenth follows none.

// PlainPrefix is one kept prefix of the model, in the plainest form.
struct PlainPrefix {
  std::set<uint64_t> blocks;
  absl::Time deadline;
};
struct PlainTenant {
  SessionId session{};
  std::string name;
  uint64_t numbered = 0;
  std::map<std::pair<uint64_t, size_t>, uint64_t> ids;  // Ids by first block and count.
  std::map<uint64_t, PlainPrefix> prefixes;             // Kept prefixes by id.

  std::set<uint64_t> Kept() const {
    std::set<uint64_t> kept;
    for (const auto& [id, prefix] : prefixes) {
      kept.insert(prefix.blocks.begin(), prefix.blocks.end());
    }
    return kept;
  }
  void End(uint64_t id) {
    prefixes.erase(id);
    std::erase_if(ids, [id](const auto& entry) { return entry.second == id; });
  }
  void Drop(uint64_t block) {
    for (auto& [id, prefix] : prefixes) prefix.blocks.erase(block);
  }
  void EndEmpty() {
    const std::map<uint64_t, PlainPrefix> before = prefixes;
    for (const auto& [id, prefix] : before) {
      if (prefix.blocks.empty()) End(id);
    }
  }
};

class KeptPrefixesModel : public ::testing::Test {
 protected:
  KeptPrefixesModel() {
    tenants_[0] = {.session = rig_.session, .name = "default"};
    tenants_[1] = {.session = rig_.Open(1), .name = "acme"};
  }
  bool IsHere(const PlainTenant& tenant, uint64_t block) {
    return rig_.agent->index().In(Tier::kHost, rig_.NameRun(tenant.session, block, 1).keys[0]);
  }
  std::pair<uint64_t, size_t> AnyRun() {
    const uint64_t first = random_.Below(10 * kChain);
    return {first, 1 + random_.Below(kChain - first % kChain)};
  }

  void Put(PlainTenant* tenant) {
    const auto [first, count] = AnyRun();
    std::optional<EngineKey> parent;
    if (first % kChain != 0) parent = TestEngineKey(first - 1);
    rig_.Put(tenant->session, first, count, parent);
  }
  void Keep(PlainTenant* tenant) {
    const auto run = AnyRun();
    const absl::Time deadline =
        rig_.executor.Now() + absl::Seconds(1 + static_cast<int64_t>(random_.Below(20)));
    KeepRequest request{.sequences = {rig_.NameRun(tenant->session, run.first, run.second)},
                        .deadline = rig_.executor.Now(),
                        .ttl = deadline - rig_.executor.Now()};
    const Kept kept = *rig_.Run(rig_.agent->flows().prefix_keeper.Keep(std::move(request)));
    const auto known = tenant->ids.find(run);
    const bool is_new = known == tenant->ids.end();
    const uint64_t id = is_new ? ++tenant->numbered : known->second;
    PlainPrefix& prefix = tenant->prefixes[id];
    prefix.blocks.clear();
    prefix.deadline = std::max(deadline, is_new ? absl::InfinitePast() : prefix.deadline);
    size_t expected = 0;
    for (; expected < run.second && IsHere(*tenant, run.first + expected); ++expected) {
      std::set<uint64_t> all = tenant->Kept();
      all.insert(run.first + expected);
      if (all.size() > kQuota) break;
      prefix.blocks.insert(run.first + expected);
    }
    ASSERT_EQ(kept.sequences[0].indices.size(), expected);
    if (expected == 0) {
      ASSERT_EQ(kept.id, KeptId{});
      tenant->End(id);
      return;
    }
    ASSERT_EQ(kept.id, KeptId{id});
    ASSERT_EQ(kept.deadline, prefix.deadline);
    tenant->ids[run] = id;
  }
  void EndOne(PlainTenant* tenant) {
    const uint64_t id = 1 + random_.Below(tenant->numbered + 1);
    const size_t ended = rig_.Run(rig_.agent->flows().prefix_keeper.End(
        rig_.agent->sessions().table().DomainOf(tenant->session), KeptId{id}));
    ASSERT_EQ(ended, tenant->prefixes.contains(id) ? 1u : 0u);
    tenant->End(id);
  }
  void Delete(PlainTenant* tenant, DeleteScope scope) {
    const uint64_t block = random_.Below(10 * kChain);
    std::set<uint64_t> gone;
    uint64_t next = block;
    do {
      // The agent knows a descendant only if all blocks between the two are here.
      const bool is_here = IsHere(*tenant, next);
      if (is_here) gone.insert(next);
      if (!is_here && next != block) break;
    } while (scope == DeleteScope::kDescendants && ++next % kChain != 0);
    const Deleted deleted = rig_.Run(
        rig_.agent->flows().block_deleter.Delete({rig_.NameRun(tenant->session, block, 1)}, scope));
    ASSERT_EQ(deleted.blocks, gone.size());
    ASSERT_TRUE(deleted.held == 0 && deleted.is_whole);
    for (const uint64_t each : gone) {
      ASSERT_FALSE(IsHere(*tenant, each));
      tenant->Drop(each);
    }
    tenant->EndEmpty();
  }
  void Erase(PlainTenant* tenant) {
    rig_.Run(rig_.agent->flows().tenant_eraser.Erase(tenant->name)).status().IgnoreError();
    tenant->prefixes.clear();
    tenant->ids.clear();
  }
  void Pass() {
    rig_.Pass(absl::Seconds(1 + static_cast<int64_t>(random_.Below(5))));
    // Gives the agent time to notice deadlines that have just passed.
    rig_.Pass(2 * kSweepInterval);
    for (PlainTenant& tenant : tenants_) {
      const std::map<uint64_t, PlainPrefix> before = tenant.prefixes;
      for (const auto& [id, prefix] : before) {
        if (prefix.deadline < rig_.executor.Now()) tenant.End(id);
      }
    }
  }
  void ExpectSame() {
    rig_.agent->Audit();
    for (const PlainTenant& tenant : tenants_) {
      const DomainId domain = rig_.agent->sessions().table().DomainOf(tenant.session);
      const std::set<uint64_t> kept = tenant.Kept();
      for (const uint64_t block : kept) ASSERT_TRUE(IsHere(tenant, block)) << "evicted: " << block;
      ASSERT_LE(kept.size(), kQuota);
      const KeptPrefixes& prefixes = rig_.agent->flows().kept_prefixes;
      ASSERT_EQ(prefixes.UseOf(domain).bytes, kept.size() * kRigBlockBytes);
      const auto listed = prefixes.List(domain, absl::InfinitePast());
      ASSERT_EQ(listed.size(), tenant.prefixes.size());
      auto plain = tenant.prefixes.begin();
      for (const KeptPrefixes::Listed& each : listed) {
        ASSERT_EQ(each.id, KeptId{plain->first});
        ASSERT_EQ(each.blocks, plain->second.blocks.size());
        ASSERT_EQ(each.deadline, plain->second.deadline);
        ++plain;
      }
    }
  }

  AgentRig rig_{{.slots = kSlots, .disk = false}};
  PlainTenant tenants_[2];
  SimRandom random_{TestSeed()};
};

TEST_F(KeptPrefixesModel, AgreesWithTheReferenceOnRandomOperations) {
  for (int step = 0; step < (kSanitized ? 500 : 3000); ++step) {
    PlainTenant* const tenant = &tenants_[random_.Below(2)];
    const uint64_t operation = random_.Below(100);
    if (operation < 40) {
      Put(tenant);
    } else if (operation < 75) {
      Keep(tenant);
    } else if (operation < 83) {
      EndOne(tenant);
    } else if (operation < 88) {
      Delete(tenant, DeleteScope::kNamed);
    } else if (operation < 92) {
      Delete(tenant, DeleteScope::kDescendants);
    } else if (operation < 93) {
      Erase(tenant);
    } else if (operation < 94) {
      rig_.EvictHost();
    } else {
      Pass();
    }
    ExpectSame();
    if (HasFatalFailure()) FAIL() << "step " << step << ", operation " << operation;
  }
}

}  // namespace
}  // namespace kvtier::testing
