// Tests the output of the verbs from fixed answers, byte for byte: the tables that people read and
// the JSON that scripts depend on.
#include <string>

#include "absl/status/status.h"
#include "cli/evict.h"
#include "cli/lookup.h"
#include "cli/nodes.h"
#include "cli/settings.h"
#include "cli/status.h"
#include "cli/tiers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::AgentStatusResponse WellAgent() {
  v1::AgentStatusResponse status;
  status.mutable_version()->set_version(1);
  status.mutable_version()->set_min_version(1);
  status.mutable_version()->set_build("kvtier-agent 0.1.0");
  status.set_node_id("n1");
  status.set_node_epoch(0xab);
  status.set_uptime_seconds(3723);
  status.set_sessions(2);
  status.set_leases(64);
  status.set_coordinator_address("10.0.0.1:7300");
  status.set_coordinator_connected(true);
  status.set_coordinator_silence_seconds(0.4);
  v1::HostScrubReport* scrub = status.mutable_host_scrub();
  scrub->set_bytes_per_second(uint64_t{64} << 20);
  scrub->set_passes(3);
  scrub->set_last_pass_seconds(16);
  scrub->set_blocks(1536);
  scrub->set_bytes(uint64_t{3} << 30);
  status.set_disk_io("io_uring");
  status.mutable_disk_recovery()->set_recovered_blocks(7000);
  v1::OffloadReport* offload = status.mutable_offload();
  offload->set_policy("predicted_reuse");
  offload->set_moment("commit");
  offload->set_written(6000);
  offload->set_not_worth_it(1234);
  offload->set_declined_behind(5);
  offload->set_waited(3);
  status.set_device("emulated");
  status.mutable_peers()->set_fetched_blocks(120);
  status.mutable_peers()->set_fetched_bytes(uint64_t{240} << 20);
  v1::TierReport* host = status.add_tiers();
  host->set_tier(v1::TIER_HOST);
  host->set_capacity_bytes(uint64_t{4} << 30);
  host->set_used_bytes(uint64_t{1} << 30);
  host->set_pinned_bytes(uint64_t{128} << 20);
  host->set_late_bytes(uint64_t{64} << 10);
  host->set_blocks(512);
  host->set_hits(75);
  host->set_misses(25);
  host->set_evictions(1234);
  host->set_read_p50_seconds(0.00002);
  return status;
}

TEST(StatusTable, OneAgentAndWhatIsDownFitOneScreen) {
  const StatusReport report = {
      .agents = {{"unix:/a.sock", WellAgent()}, {"h:1", absl::DeadlineExceededError("late")}}};
  EXPECT_EQ(StatusTable(report), R"(AGENT  n1  unix:/a.sock
  health         ok
  version        kvtier-agent 0.1.0
  up             1 h 2 min
  holds          2 sessions, 64 leases, 0 reservations, 0 tickets, 0 blocks to offload
  coordinator    10.0.0.1:7300, connected, last heard 400 ms ago
  peers          fetched 120 blocks (240 MiB), missed 0, served 0 (0 B)
  worker memory  direct: workers write the arena
  host scrub     64.0 MiB/s; proved 1,536 blocks, 0 were altered; pass 3 took 16.0 s
  disk I/O       io_uring
  disk start     7,000 blocks recovered; dropped 0 of older generations, 0 damaged, 0 outside the disk as configured, 0 without a key
  disk writes    predicted_reuse at commit; wrote 6,000 blocks; declined 1,234 not worth it, 5 behind; 3 puts waited
  device         emulated
  TIER  CAPACITY      USED    FULL   PINNED  BLOCKS  HITS  MISSES  EVICTIONS
  host  4.00 GiB  1.00 GiB  25.0 %  128 MiB     512    75      25      1,234

AGENT  h:1
  health  no answer in time
)");
}

TEST(StatusTable, SaysWhereWorkersOfAStagedNodeWrite) {
  v1::AgentStatusResponse status = WellAgent();
  v1::StagingReport* const staging = status.mutable_staging();
  staging->set_session_bytes(uint64_t{64} << 20);
  staging->set_regions(2);
  staging->set_reserved_bytes(uint64_t{6} << 20);
  staging->set_blocks(5678);
  EXPECT_THAT(StatusTable({.agents = {{"h:1", status}}}),
              HasSubstr("staged: 64.0 MiB for each of 2 sessions, 6.00 MiB being written; copied "
                        "5,678 blocks\n"));
  staging->set_refused_sums(1234);
  staging->set_refused_regions(3);
  EXPECT_THAT(StatusTable({.agents = {{"h:1", status}}}),
              HasSubstr(", refused 1,234 that were not what their sums said"));
  EXPECT_THAT(Complaints(status),
              ElementsAre("3 sessions got no memory to stage in and can put nothing"));
}

TEST(StatusTable, ShowsTheCoordinator) {
  v1::CoordinatorStatusResponse status;
  status.mutable_version()->set_build("kvtier-coordinator 0.1.0");
  status.set_uptime_seconds(5);
  status.set_directory_keys(1000);
  status.add_nodes()->set_state("live");
  status.add_nodes()->set_state("silent");
  status.set_locate_requests(7);
  const StatusReport report = {.coordinator =
                                   Answer<v1::CoordinatorStatusResponse>{"c:7300", status}};
  EXPECT_EQ(StatusTable(report), R"(COORDINATOR  c:7300
  health     ok
  version    kvtier-coordinator 0.1.0
  up         5.00 s
  nodes      1 live of 2
  directory  1,000 blocks
  served     7 locates, 0 reports, 0 resyncs
  settings   unknown
)");
  status.set_refused_keys(3);
  EXPECT_THAT(StatusTable({.coordinator = Answer<v1::CoordinatorStatusResponse>{"c", status}}),
              HasSubstr("full: refused 3 blocks"));
}

TEST(Complaints, SayThatTheDiskIsBehindWhilePutsWaitOrAreRefused) {
  v1::AgentStatusResponse status = WellAgent();
  status.mutable_offload()->set_behind(true);
  status.mutable_offload()->set_waiting(2);
  status.mutable_offload()->set_promised_bytes(uint64_t{80} << 20);
  EXPECT_THAT(Complaints(status),
              ElementsAre("disk behind: 80.0 MiB to write, 2 puts wait, 5 blocks refused so far"));
}

TEST(Complaints, NameWhatIsNotAsItShouldBe) {
  v1::AgentStatusResponse status = WellAgent();
  EXPECT_THAT(Complaints(status), IsEmpty());
  status.set_coordinator_connected(false);
  status.set_altered_blocks(1);
  status.mutable_disk_recovery()->set_dropped_corrupt(5);
  status.mutable_tiers(0)->set_verify_failures(2);
  status.mutable_tiers(0)->set_io_errors(3);
  status.mutable_peers()->set_verify_failures(4);
  status.mutable_peers()->set_avoided_peers(2);
  EXPECT_THAT(
      Complaints(status),
      ElementsAre("1 host blocks altered by a worker after commit",
                  "5 damaged manifest values dropped at start", "2 blocks quarantined on host",
                  "3 I/O errors on host", "4 wrong blocks from peers",
                  "2 peers avoided, they failed", "coordinator silent, only local hits"));
  status = WellAgent();
  v1::DiskReport* disk = status.add_disks();
  disk->set_directory("/mnt/b");
  disk->set_health("quarantined: 16 of the last 64 I/Os failed");
  EXPECT_THAT(
      Complaints(status),
      ElementsAre("disk /mnt/b out of service: quarantined: 16 of the last 64 I/Os failed"));
  disk->set_serving(true);
  disk->set_health("takes no blocks: the manifest has no room");
  EXPECT_THAT(Complaints(status),
              ElementsAre("disk /mnt/b: takes no blocks: the manifest has no room"));
  disk->set_health("healthy");
  EXPECT_THAT(Complaints(status), IsEmpty());
  status = WellAgent();
  status.set_coordinator_connected(false);
  status.set_coordinator_refusal("node n1: another agent of this name");
  EXPECT_THAT(Complaints(status), ElementsAre("coordinator refuses this node, only local hits: "
                                              "node n1: another agent of this name"));
  status = WellAgent();
  status.set_coordinator_address("");
  status.set_coordinator_connected(false);
  EXPECT_THAT(Complaints(status), IsEmpty());
}

TEST(StatusJson, HasPlainNumbersAndTheErrors) {
  const StatusReport report = {
      .agents = {{"unix:/a.sock", WellAgent()}, {"h:1", absl::UnavailableError("refused")}}};
  EXPECT_EQ(StatusJson(report), R"json({
  "schema_version": 1,
  "agents": [
    {
      "address": "unix:/a.sock",
      "node_id": "n1",
      "node_epoch": "00000000000000ab",
      "health": "",
      "build": "kvtier-agent 0.1.0",
      "protocol_version": 1,
      "protocol_min_version": 1,
      "uptime_seconds": 3723.0,
      "sessions": 2,
      "leases": 64,
      "reservations": 0,
      "tickets": 0,
      "ticket_blocks": 0,
      "offload_queue_blocks": 0,
      "told_address": "",
      "coordinator": {
        "address": "10.0.0.1:7300",
        "connected": true,
        "silence_seconds": 0.4,
        "refusal": "",
        "settings_differ": false
      },
      "peers": {
        "fetched_blocks": 120,
        "fetched_bytes": 251658240,
        "missed_blocks": 0,
        "verify_failures": 0,
        "served_blocks": 0,
        "served_bytes": 0,
        "timeouts": 0,
        "passed_blocks": 0,
        "avoided_peers": 0
      },
      "host_memory": {
        "bytes": 0,
        "target_bytes": 0,
        "min_bytes": 0,
        "max_bytes": 0,
        "slab_bytes": 0,
        "failure": "",
        "moves": false,
        "free_slab_bytes": 0,
        "padding_bytes": 0,
        "split_bytes": 0,
        "moved_slabs": 0,
        "copied_blocks": 0,
        "held_slabs": 0,
        "slot_sizes": []
      },
      "worker_memory": "direct",
      "staging": {
        "session_bytes": 0,
        "regions": 0,
        "reserved_bytes": 0,
        "refused_regions": 0,
        "blocks": 0,
        "refused_sums": 0
      },
      "host_scrub": {
        "bytes_per_second": 67108864,
        "passes": 3,
        "last_pass_seconds": 16.0,
        "blocks": 1536,
        "bytes": 3221225472,
        "altered": 0
      },
      "disk_io": "io_uring",
      "disk_recovery": {
        "recovered_blocks": 7000,
        "dropped_stale": 0,
        "dropped_corrupt": 0,
        "dropped_misfit": 0,
        "dropped_keyless": 0
      },
      "offload": {
        "policy": "predicted_reuse",
        "moment": "commit",
        "written": 6000,
        "not_worth_it": 1234,
        "over_budget": 0,
        "declined_behind": 5,
        "evicted": 0,
        "altered": 0,
        "disk_full": 0,
        "disk_failed": 0,
        "waited": 3,
        "waiting": 0,
        "promised_bytes": 0,
        "behind": false
      },
      "device": "emulated",
      "altered_blocks": 0,
      "deadline_misses": 0,
      "tiers": [
        {
          "tier": "host",
          "capacity_bytes": 4294967296,
          "used_bytes": 1073741824,
          "pinned_bytes": 134217728,
          "late_bytes": 65536,
          "blocks": 512,
          "hits": 75,
          "misses": 25,
          "inserts": 0,
          "evictions": 1234,
          "declined": 0,
          "unwritten_blocks": 0,
          "bytes_in": 0,
          "bytes_out": 0,
          "read_p50_seconds": 2e-05,
          "read_p99_seconds": 0.0,
          "write_p50_seconds": 0.0,
          "write_p99_seconds": 0.0,
          "verified": 0,
          "verify_failures": 0,
          "io_errors": 0,
          "eviction": {
            "policy": "",
            "orders": 0,
            "following_lru": 0,
            "refused_blocks": 0,
            "learnt_hit_share": 0.0,
            "lru_hit_share": 0.0
          }
        }
      ],
      "gpus": []
    },
    {
      "address": "h:1",
      "error": "unreachable (refused)"
    }
  ]
}
)json");
}

TEST(TiersTable, HasAColumnForEachTier) {
  v1::AgentStatusResponse status;
  status.set_node_id("n1");
  v1::TierReport* host = status.add_tiers();
  host->set_tier(v1::TIER_HOST);
  host->set_capacity_bytes(1 << 30);
  host->set_used_bytes(1 << 29);
  host->set_hits(3);
  host->set_misses(1);
  v1::TierReport* disk = status.add_tiers();
  disk->set_tier(v1::TIER_DISK);
  disk->set_bytes_in(uint64_t{10} << 30);
  disk->set_read_p50_seconds(0.0012);
  disk->set_read_p99_seconds(0.0105);
  EXPECT_EQ(TiersTable({{"unix:/a.sock", status}}), R"(AGENT  n1  unix:/a.sock
  TIER                 host      disk
  capacity         1.00 GiB       0 B
  used              512 MiB       0 B
  full               50.0 %         -
  pinned                0 B       0 B
  late                  0 B       0 B
  blocks                  0         0
  hits                    3         0
  misses                  1         0
  hit rate           75.0 %         -
  inserts                 0         0
  evictions               0         0
  declined                0         0
  eviction                -         -
  worth no room           0         0
  learnt finds            -         -
  lru would find          -         -
  unwritten               0         0
  bytes in              0 B  10.0 GiB
  bytes out             0 B       0 B
  read p50              0 s   1.20 ms
  read p99              0 s   10.5 ms
  write p50             0 s       0 s
  write p99             0 s       0 s
  verified                0         0
  verify failures         0         0
  I/O errors              0         0
)");
}

TEST(TiersTable, ATierOfANewerAgentIsShownByItsNumber) {
  EXPECT_EQ(WireTierName(static_cast<v1::Tier>(7)), "tier 7");
}

TEST(NodesTable, ShowsWhoIsThereAndWhatTheyHold) {
  v1::CoordinatorStatusResponse status;
  v1::NodeReport* node = status.add_nodes();
  node->set_node_id("n1");
  node->set_state("live");
  node->set_address("10.0.0.2:7301");
  node->set_silence_seconds(0.25);
  node->set_directory_blocks(4096);
  v1::TierUsage* host = node->add_tiers();
  host->set_tier(v1::TIER_HOST);
  host->set_capacity_bytes(uint64_t{4} << 30);
  host->set_used_bytes(uint64_t{3} << 30);
  EXPECT_EQ(NodesTable(status),
            "NODE  STATE  ADDRESS        LAST HEARD  BLOCKS                  HOST  DISK\n"
            "n1    live   10.0.0.2:7301  250 ms ago   4,096  3.00 GiB of 4.00 GiB     -\n");
  EXPECT_THAT(NodesJson(status), HasSubstr("\"silence_seconds\": 0.25,\n"));
  EXPECT_EQ(NodesTable({}), "The coordinator knows no node.\n");
}

TEST(NodesTable, SaysThatTwoAgentsHaveOneName) {
  v1::CoordinatorStatusResponse status;
  v1::NodeReport* node = status.add_nodes();
  node->set_node_id("n1");
  node->set_address("10.0.0.2:7301");
  node->set_namesake_address("10.0.0.3:7301");
  node->set_namesake_silence_seconds(0.25);
  const std::string said =
      "two agents are called n1: the one at 10.0.0.2:7301 is served, the one at 10.0.0.3:7301 is "
      "refused (heard 250 ms ago)";
  EXPECT_THAT(NodesTable(status), HasSubstr(said + "\n"));
  EXPECT_THAT(NodesJson(status), HasSubstr("\"twin_address\": \"10.0.0.3:7301\""));
  EXPECT_THAT(StatusTable({.coordinator = Answer<v1::CoordinatorStatusResponse>{"c", status}}),
              HasSubstr(said + "\n"));
}

TEST(LookupTable, ShowsEveryCopyAndWhoSaysSo) {
  v1::LookupResponse response;
  response.set_block_key(std::string(15, '\0') + "\x2a");
  v1::LookupResponse::Copy* copy = response.add_copies();
  copy->set_node_id("n1");
  copy->set_tier(v1::TIER_DISK);
  copy->set_length(2 << 20);
  v1::LookupResponse none;
  const LookupAnswers answers = {
      {"unix:/a.sock", response}, {"b:1", none}, {"c:1", absl::InternalError("broken")}};
  EXPECT_EQ(LookupTable(answers), R"(BLOCK  0000000000000000000000000000002a
SAYS          NODE              TIER    LENGTH
unix:/a.sock  n1                disk  2.00 MiB
b:1           nobody
c:1           INTERNAL: broken
)");
  EXPECT_THAT(LookupJson(answers), HasSubstr("\"length_bytes\": 2097152\n"));
}

TEST(EvictTable, ShowsWhatWentAndWhatIsHeld) {
  v1::EvictTierResponse response;
  response.set_evicted_blocks(1000);
  response.set_held_blocks(4);
  EXPECT_EQ(EvictTable({{"unix:/a.sock", response}}),
            "AGENT         EVICTED  STILL HELD\n"
            "unix:/a.sock    1,000           4\n");
  EXPECT_THAT(EvictJson({{"unix:/a.sock", response}}), HasSubstr("\"held_blocks\": 4\n"));
}

TEST(SettingsTable, SaysWhenNothingIsSet) {
  EXPECT_EQ(SettingsTable({}), "Nothing is set.\n");
  v1::GetSettingsResponse response;
  response.add_settings()->set_name("quota");
  response.mutable_settings(0)->set_value("1");
  EXPECT_EQ(SettingsTable(response), "NAME   VALUE\nquota  1\n");
  EXPECT_THAT(SettingsJson(response), HasSubstr("\"name\": \"quota\",\n"));
}

}  // namespace
}  // namespace kvtier::cli
