#include "bench/policy/sweep_report.h"

#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"

namespace kvtier::bench {
namespace {

// Programs read these names (bench/plot_policy.py among them).
TEST(SweepReportTest, TheJsonHasItsSchema) {
  const Policy* const lru = FindPolicy("lru");
  const Sweep sweep{.trace = "small",
                    .requests = 3,
                    .blocks = 4,
                    .unlimited_percent = 75,
                    .policies = {lru},
                    .one_tier = {{.percent = 50,
                                  .blocks = 2,
                                  .hits = {{.tokens = 1000,
                                            .hit_tokens = 250,
                                            .cost = 2000,
                                            .hit_cost = 400,
                                            .insertions = 6}}}},
                    .two_tiers = {{.dram_percent = 5,
                                   .disk_percent = 30,
                                   .host = EvictionPolicy::kLru,
                                   .disk = EvictionPolicy::kFifo,
                                   .result = {.tokens = 1000,
                                              .host_tokens = 100,
                                              .disk_tokens = 200,
                                              .disk_served = 2,
                                              .disk_written = 3}}}};
  EXPECT_EQ(nlohmann::json::parse(ToJson(std::span(&sweep, 1))), nlohmann::json::parse(R"(
    {"schema": 1, "traces": [{
      "name": "small", "requests": 3, "blocks": 4, "unlimited_hit_percent": 75.0,
      "one_tier": [{"capacity_percent": 50.0, "capacity_blocks": 2,
                    "policies": {"lru": {"hit_percent": 25.0, "saved_cost_percent": 20.0,
                                         "insertions_per_block": 1.5}}}],
      "two_tiers": [{"dram_percent": 5.0, "disk_percent": 30.0, "policy": "lru",
                     "disk_policy": "fifo", "dram_hit_percent": 10.0, "disk_hit_percent": 20.0,
                     "writes_per_block": 0.75, "writes_per_served": 1.5}]}]})"));
}

}  // namespace
}  // namespace kvtier::bench
