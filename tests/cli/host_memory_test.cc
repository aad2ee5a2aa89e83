// Tests host memory and what tenants have of it, as `kvtier status`, `tiers` and `host resize` show
// them.
#include "cli/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/command.h"
#include "cli/status.h"
#include "cli/tiers.h"
#include "proto/convert.h"
#include "tests/cli/tenant_reports.h"
#include "tests/testing/fake_admin.h"

namespace kvtier::cli {
namespace {

using testing::AddTenant;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

v1::HostMemorySize SizeOf(uint64_t gib, uint64_t target_gib) {
  v1::HostMemorySize size;
  size.set_bytes(gib * kGiB);
  size.set_target_bytes(target_gib * kGiB);
  size.set_min_bytes(128 * kMiB);
  size.set_max_bytes(16 * kGiB);
  size.set_slab_bytes(64 * kMiB);
  return size;
}

v1::HostMemoryReport EightGiB() {
  v1::HostMemoryReport memory;
  *memory.mutable_size() = SizeOf(8, 8);
  memory.set_moves(true);
  memory.set_free_slab_bytes(2 * kGiB);
  memory.set_padding_bytes(100 * kMiB);
  memory.set_split_bytes(512 * kMiB);
  memory.set_moved_slabs(1234);
  memory.set_copied_blocks(5);
  memory.set_held_slabs(1);
  v1::SlotSizeReport* const small = memory.add_sizes();
  small->set_slot_bytes(4096);
  small->set_slabs(1);
  small->set_used_slots(4096);
  small->set_free_slots(12'288);
  v1::SlotSizeReport* const large = memory.add_sizes();
  large->set_slot_bytes(2 * kMiB);
  large->set_slabs(95);
  large->set_used_slots(2584);
  large->set_free_slots(456);
  return memory;
}

v1::ListTenantsResponse ThreeTenants() {
  v1::ListTenantsResponse response;
  AddTenant("b", 3, 10, &response);
  response.mutable_tenants(0)->mutable_host()->set_evictions(50);
  AddTenant("a", 24, 10, &response);
  v1::TenantTaken* const taken = response.mutable_tenants(1)->mutable_host()->add_taken();
  taken->set_tenant("b");
  taken->set_blocks(46);
  AddTenant("c", 9, 10, &response);
  response.add_tenants()->set_name("known-by-settings");
  return response;
}

TEST(HostMemoryText, SaysWhatIsFreeAndWhatIsLostToSizes) {
  EXPECT_EQ(HostMemoryText(EightGiB()),
            "8.00 GiB, moves, at most 16.0 GiB; free slabs 2.00 GiB (25.0 %), inside slots 100 MiB "
            "(1.2 %), split by size 512 MiB (6.2 %); moved 1,234 slabs, copied 5 blocks out, 1 "
            "slabs were held");
}

TEST(HostMemoryText, SaysWhereItsSizeGoesAndWhyItDidNotGetThere) {
  v1::HostMemoryReport memory = EightGiB();
  memory.mutable_size()->set_target_bytes(10 * kGiB);
  EXPECT_THAT(HostMemoryText(memory), HasSubstr("8.00 GiB (growing), moves"));
  memory.mutable_size()->set_target_bytes(7 * kGiB);
  EXPECT_THAT(HostMemoryText(memory), HasSubstr("8.00 GiB (shrinking by 1.00 GiB), moves"));
  memory.mutable_size()->set_failure("no memory");
  EXPECT_THAT(HostMemoryText(memory), HasSubstr("8.00 GiB (no memory), moves"));
  memory.set_moves(false);
  EXPECT_THAT(HostMemoryText(memory), HasSubstr(", fixed; free slabs"));
}

TEST(SlotSizeLines, HaveTheSizesWithMostMemoryFirst) {
  EXPECT_EQ(SlotSizeLines(EightGiB()),
            "  SLOTS OF  SLABS    MEMORY   USED    FREE    FULL\n"
            "  2.00 MiB     95  5.94 GiB  2,584     456  85.0 %\n"
            "  4.00 KiB      1  64.0 MiB  4,096  12,288  25.0 %\n");
  EXPECT_EQ(SlotSizeLines(v1::HostMemoryReport()), "");
}

TEST(SlotSizeLines, AreFew) {
  v1::HostMemoryReport memory;
  for (int i = 1; i <= kMaxSlotSizeRows + 3; ++i) memory.add_sizes()->set_slabs(1);
  EXPECT_THAT(SlotSizeLines(memory), EndsWith("  and slots of 3 more sizes\n"));
}

TEST(TiersTable, SaysWhichOrderIsFollowedAndWhatEachWouldFind) {
  v1::AgentStatusResponse status;
  v1::TierReport* const host = status.add_tiers();
  host->set_tier(v1::TIER_HOST);
  v1::EvictionReport* const eviction = host->mutable_eviction();
  eviction->set_policy("learnt");
  eviction->set_orders(3);
  eviction->set_refused_blocks(12);
  eviction->set_learnt_hit_share(0.25);
  eviction->set_lru_hit_share(0.205);
  const auto table = [&status] { return TiersTable({{"a", status}}); };
  EXPECT_THAT(table(), HasSubstr("eviction         learnt\n"));
  EXPECT_THAT(table(), HasSubstr("worth no room        12\n"));
  EXPECT_THAT(table(), HasSubstr("learnt finds     25.0 %\n"));
  EXPECT_THAT(table(), HasSubstr("lru would find   20.5 %\n"));
  eviction->set_following_lru(1);
  EXPECT_THAT(table(), HasSubstr("learnt, lru in 1 of 3\n"));
  eviction->set_following_lru(3);
  EXPECT_THAT(table(), HasSubstr("learnt, lru now\n"));
}

class HostMemoryCommandTest : public ::testing::Test {
 protected:
  HostMemoryCommandTest() {
    agent_.status_response.set_node_id("n1");
    *agent_.status_response.mutable_version() = convert::OurVersion("kvtier-agent 0.1.0");
    *agent_.status_response.mutable_host_memory() = EightGiB();
    agent_.tenants = ThreeTenants();
  }
  Outcome Kvtier(std::vector<std::string> words) const {
    words.insert(words.end(), {"--agent", server_.address()});
    return RunCommand(words);
  }

  testing::FakeAgentAdmin agent_;
  testing::AdminServer server_{&agent_};
};

TEST_F(HostMemoryCommandTest, StatusShowsHostMemoryAndWhatTenantsHaveOfIt) {
  const Outcome outcome = Kvtier({"status"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("host memory    8.00 GiB, moves"), HasSubstr("\n\n  SLOTS OF  SLABS"),
                    HasSubstr("\n\n  TENANT  TIER"), HasSubstr("240.0 % !"),
                    HasSubstr("92.0 % of evictions of tenant b")));
  const Outcome json = Kvtier({"status", "-o", "json"});
  EXPECT_THAT(
      json.out,
      AllOf(HasSubstr("\"padding_bytes\": 104857600"), HasSubstr("\"split_bytes\": 536870912"),
            HasSubstr("\"slot_bytes\": 2097152"), HasSubstr("\"name\": \"a\""),
            HasSubstr("\"nearly_full\": true"), Not(HasSubstr("known-by-settings"))));
}

TEST_F(HostMemoryCommandTest, StatusSaysNothingOfTenantsWhereTheAgentDoesNot) {
  agent_.tenants_status = {grpc::StatusCode::UNIMPLEMENTED, "not at this door"};
  const Outcome outcome = Kvtier({"status"});
  EXPECT_EQ(outcome.code, ExitCode::kOk);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("host memory"), Not(HasSubstr("TENANT"))));
  EXPECT_THAT(Kvtier({"status", "-o", "json"}).out, Not(HasSubstr("nearly_full")));
}

TEST_F(HostMemoryCommandTest, ResizeSaysHowLargeTheMemoryIsAndIsToBe) {
  *agent_.host_resized.mutable_size() = SizeOf(8, 6);
  const Outcome outcome = Kvtier({"host", "resize", "6GiB"});
  EXPECT_EQ(outcome.code, ExitCode::kOk) << "it is in progress";
  EXPECT_EQ(agent_.host_resize_asked.bytes(), 6 * kGiB);
  EXPECT_THAT(outcome.out, HasSubstr("8.00 GiB  6.00 GiB  16.0 GiB  shrinking by 2.00 GiB\n"));
}

TEST_F(HostMemoryCommandTest, ResizeSaysThatSizesAreWholeSlabs) {
  *agent_.host_resized.mutable_size() = SizeOf(8, 8);
  EXPECT_THAT(Kvtier({"host", "resize", "8200MiB"}).out,
              HasSubstr("rounded down to slabs of 64.0 MiB"));
}

TEST_F(HostMemoryCommandTest, ResizeFailsWithTheAgentsReason) {
  *agent_.host_resized.mutable_size() = SizeOf(8, 8);
  agent_.host_resized.mutable_size()->set_failure("no memory");
  EXPECT_EQ(Kvtier({"host", "resize", "9GiB"}).code, ExitCode::kFailed);
  EXPECT_THAT(Kvtier({"host", "resize", "9GiB"}).out, HasSubstr("no memory"));
  agent_.status = {grpc::StatusCode::FAILED_PRECONDITION, "start it with --host_memory=moving"};
  EXPECT_EQ(Kvtier({"host", "resize", "9GiB"}).code, ExitCode::kFailed);
  EXPECT_THAT(Kvtier({"host", "resize", "9GiB"}).out, HasSubstr("--host_memory=moving"));
}

TEST_F(HostMemoryCommandTest, ResizeHasJson) {
  *agent_.host_resized.mutable_size() = SizeOf(8, 6);
  EXPECT_THAT(Kvtier({"host", "resize", "6GiB", "-o", "json"}).out,
              AllOf(HasSubstr("\"bytes\": 8589934592"), HasSubstr("\"target_bytes\": 6442450944"),
                    HasSubstr("\"min_bytes\": 134217728"), HasSubstr("\"failure\": \"\"")));
}

}  // namespace
}  // namespace kvtier::cli
