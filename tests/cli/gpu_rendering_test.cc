// Tests the rendering of a GPU's pool: the table, and the JSON, whose fields scripts rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/status.h"
#include "cli/tiers.h"

namespace kvtier::cli {
namespace {

// Returns the status of a node with two GPUs.
v1::AgentStatusResponse TwoGpus() {
  v1::AgentStatusResponse status;
  status.set_node_id("n1");
  for (const char* last : {"0", "1"}) {
    v1::GpuReport* const gpu = status.add_gpus();
    gpu->set_device("NVIDIA H200");
    gpu->set_uuid(std::string("GPU-00000000-1111-2222-3333-44444444444") + last);
    gpu->set_tenant("acme");
    gpu->set_slots(8);
    gpu->set_free_slots(last[0] == '0' ? 2 : 8);
    gpu->set_workers(1);
    gpu->mutable_size()->set_bytes(uint64_t{4} << 30);
    gpu->mutable_size()->set_target_bytes(uint64_t{4} << 30);
  }
  return status;
}

TEST(StatusTable, HasALineForEachGpu) {
  StatusReport report;
  report.agents.push_back({"unix:/a.sock", TwoGpus()});
  EXPECT_THAT(
      StatusTable(report),
      ::testing::EndsWith(
          "\n"
          "  GPU          UUID                                      TENANT    MEMORY    TARGET"
          "  SLOTS     FREE  WORKERS\n"
          "  NVIDIA H200  GPU-00000000-1111-2222-3333-444444444440  acme    4.00 GiB  4.00 GiB"
          "      8   25.0 %        1\n"
          "  NVIDIA H200  GPU-00000000-1111-2222-3333-444444444441  acme    4.00 GiB  4.00 GiB"
          "      8  100.0 %        1\n"));
}

TEST(TiersTable, NamesEachGpuByItsUuid) {
  const v1::AgentStatusResponse status = TwoGpus();
  const std::string table = TiersTable({{"unix:/a.sock", status}});
  for (const v1::GpuReport& gpu : status.gpus()) {
    EXPECT_THAT(table, ::testing::HasSubstr("NVIDIA H200  " + gpu.uuid() + "\n"));
  }
}

TEST(TiersJson, HasAnObjectForEachGpu) {
  const v1::AgentStatusResponse status = TwoGpus();
  const std::string json = TiersJson({{"unix:/a.sock", status}});
  for (const v1::GpuReport& gpu : status.gpus()) {
    EXPECT_THAT(json, ::testing::HasSubstr("\"device\": \"NVIDIA H200\",\n          \"uuid\": \"" +
                                           gpu.uuid() + "\",\n          \"tenant\": \"acme\","));
  }
}

TEST(TiersTable, HasALineForWhatEachGpuIsAndForEachWayToIt) {
  v1::AgentStatusResponse status;
  status.set_node_id("n1");
  v1::GpuReport* gpu = status.add_gpus();
  gpu->set_device("emulated");
  gpu->set_tenant("acme");
  gpu->set_slots(200);
  gpu->set_free_slots(50);
  gpu->set_draining_slots(1);
  gpu->set_slot_bytes(4096);
  gpu->set_padding_bytes(1024);
  gpu->set_granted_slots(100);
  gpu->set_granted_unused_bytes(100 << 10);
  gpu->set_offloaded_blocks(7);
  gpu->set_offload_declined(2);
  gpu->mutable_size()->set_bytes(uint64_t{4} << 30);
  gpu->mutable_size()->set_target_bytes(uint64_t{1} << 30);
  gpu->mutable_size()->set_slots_in_use(3);
  gpu->mutable_size()->set_workers(1);
  status.set_uptime_seconds(10);
  gpu->mutable_onboard()->set_copies(2);
  gpu->mutable_onboard()->set_bytes(uint64_t{1} << 30);
  gpu->mutable_onboard()->set_busy_seconds(0.5);
  gpu->mutable_onboard()->set_best_bytes_per_second(4.0 * (uint64_t{1} << 30));
  const std::string table = TiersTable({{"unix:/a.sock", status}});
  EXPECT_THAT(table, ::testing::HasSubstr("  free                     50  25.0 %\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  draining                  1  0.5 %\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  granted                 100  50.0 %\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  fragmented          101 KiB  16.8 %\n"))
      << "of 150 slots in use";
  EXPECT_THAT(table, ::testing::HasSubstr("  block padding      1.00 KiB\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  granted, no token   100 KiB  25.0 %\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  offloaded ahead           7\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("  offloads declined         2\n"));
  EXPECT_THAT(table, ::testing::HasSubstr("1.00 GiB  500 ms  4.00 GiB   50.0 %     2.5 %"));
  const std::string json = TiersJson({{"unix:/a.sock", status}});
  EXPECT_THAT(table, ::testing::HasSubstr("4.00 GiB  shrinking: waits for 3 slots of 1 workers\n"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"draining_slots\": 1"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"target_bytes\": 1073741824"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"utilisation\": 0.025"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"busy_part_of_best\": 0.5,"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"padding_bytes\": 1024"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"granted_slots\": 100"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"granted_unused_bytes\": 102400"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"fragmentation\": 0.168"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"offloaded_blocks\": 7"));
  EXPECT_THAT(json, ::testing::HasSubstr("\"offload_declined\": 2"));
}

}  // namespace
}  // namespace kvtier::cli
