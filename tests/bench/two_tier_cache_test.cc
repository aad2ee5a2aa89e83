#include "bench/two_tier_cache.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "bench/disk_model.h"
#include "tests/bench/small_traces.h"

namespace kvtier::bench {
namespace {

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRST";
constexpr size_t kBlocks = sizeof(kLetters) - 1;

// Blocks that host memory evicts, and those that it refuses, are on the disk when they come back.
TEST(TwoTierCacheTest, WhatHostMemoryDoesNotKeepIsServedFromDisk) {
  const Trace trace = TraceOfLetters(absl::StrCat(kLetters, kLetters));
  for (const Policy& policy : Policies()) {
    const auto host = policy.make(trace, 5, 0);
    LruDisk disk(trace, kBlocks);
    WriteBudget no_limit({});
    Admission admission({.policy = WritePolicy::kAll,
                         .moment = WriteMoment::kAtEviction,
                         .disk_bytes = kBlocks * TwoTierCache::kRecordBytes},
                        &no_limit);
    const ReplayResult result =
        TwoTierCache(trace, host.get(), &disk, &admission, &no_limit).Replay();
    EXPECT_EQ(result.tokens, 2 * kBlocks * kTokensPerBlock) << policy.name;
    EXPECT_EQ(result.host_tokens + result.disk_tokens, kBlocks * kTokensPerBlock) << policy.name;
    EXPECT_LE(result.disk_written, kBlocks) << policy.name;
  }
}

}  // namespace
}  // namespace kvtier::bench
