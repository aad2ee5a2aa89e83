// Tests sets, calls with several runs and sets, and commits that carry the blocks' sums.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/index/host_prover.h"
#include "agent/limits.h"
#include "core/byte_threads.h"
#include "core/checksum.h"
#include "core/event.h"
#include "core/miss_reason.h"
#include "tests/agent/agent_rig.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(100);

class SequencesTest : public ::testing::Test {
 protected:
  BlockRun Set(const std::vector<uint64_t>& numbers) {
    std::vector<EngineKey> keys;
    for (const uint64_t number : numbers) keys.push_back(TestEngineKey(number));
    BlockRun set = *rig_.agent->sessions().table().NameRun(rig_.session, 1, std::nullopt, keys);
    set.is_set = true;
    return set;
  }
  OnboardRequest RequestOf(BlockRun run) {
    return {.run = std::move(run), .deadline = rig_.executor.Now() + kShort};
  }
  static std::vector<size_t> IndicesOf(const Onboarded& onboarded) {
    std::vector<size_t> indices;
    for (const LeasedBlock& block : onboarded.blocks) indices.push_back(block.index);
    return indices;
  }

  AgentRig rig_;
};

TEST_F(SequencesTest, ASetHasHolesWhereARunEnds) {
  rig_.Put(rig_.session, 1, 2);
  rig_.Put(rig_.session, 4, 1);
  const Onboarded of_set =
      *rig_.Run(rig_.agent->flows().onboarder.Onboard(RequestOf(Set({4, 9, 1, 2}))));
  EXPECT_EQ(IndicesOf(of_set), (std::vector<size_t>{0, 2, 3}));
  EXPECT_EQ(of_set.missed, MissReason::kAbsent);
  const Onboarded of_run =
      *rig_.Run(rig_.agent->flows().onboarder.Onboard(RequestOf(rig_.NameRun(rig_.session, 1, 4))));
  EXPECT_EQ(IndicesOf(of_run), (std::vector<size_t>{0, 1}));
  const std::vector<Matched> matched = rig_.Run(rig_.agent->flows().matcher.Match(
      {Set({4, 9, 1}), rig_.NameRun(rig_.session, 1, 4)}, absl::ZeroDuration()));
  EXPECT_EQ(matched[0].local_blocks, 2);
  EXPECT_EQ(matched[0].tiers,
            (std::vector<std::optional<Tier>>{Tier::kHost, std::nullopt, Tier::kHost}));
  EXPECT_EQ(matched[1].tiers.size(), 2);
}

TEST_F(SequencesTest, BlocksOfASetHaveNoParents) {
  BlockRun set = Set({1, 2});
  set.parent = set.keys[0];
  EXPECT_EQ(set.ParentOf(0), std::nullopt);
  EXPECT_EQ(set.ParentOf(1), std::nullopt);
}

TEST_F(SequencesTest, AMissSaysThatTheBlockLeftToMakeRoom) {
  AgentRig rig({.disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1);
  ASSERT_EQ(rig.Put(rig.session, 100, 16), 16);
  const auto missed = [&](uint64_t key) {
    return rig.Run(rig.Onboard(rig.session, key, 1, kShort))->missed;
  };
  EXPECT_EQ(missed(1), MissReason::kEvicted);
  EXPECT_EQ(missed(2), MissReason::kAbsent);
  EXPECT_EQ(missed(100), MissReason::kNone);
}

TEST_F(SequencesTest, ASetComesFromTheDiskAroundItsHoles) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 8), 8);
  // Evicts the blocks above from host memory.
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 100, 16), 16);
  ASSERT_FALSE(rig_.agent->index().In(Tier::kHost, rig_.NameRun(rig_.session, 8, 1).keys[0]));
  const Onboarded of_set =
      *rig_.Run(rig_.agent->flows().onboarder.Onboard(RequestOf(Set({8, 77, 2}))));
  EXPECT_EQ(IndicesOf(of_set), (std::vector<size_t>{0, 2}));
  for (const LeasedBlock& block : of_set.blocks) EXPECT_EQ(block.from, Tier::kDisk);
}

TEST_F(SequencesTest, SeveralAreOnboardedTogetherUnderLeasesThatBeginAtTheEnd) {
  rig_.Put(rig_.session, 1, 2);
  rig_.Put(rig_.session, 11, 1);
  std::vector<OnboardRequest> requests;
  requests.push_back(RequestOf(rig_.NameRun(rig_.session, 1, 2)));
  requests.push_back(RequestOf(Set({11, 12})));
  requests.push_back(RequestOf(rig_.NameRun(rig_.session, 50, 2)));
  const std::vector<Onboarded> all =
      *rig_.Run(rig_.agent->flows().onboarder.OnboardAll(std::move(requests)));
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].blocks.size(), 2);
  EXPECT_EQ(all[0].missed, MissReason::kNone);
  EXPECT_EQ(IndicesOf(all[1]), std::vector<size_t>{0});
  EXPECT_TRUE(all[2].blocks.empty());
  EXPECT_EQ(all[2].missed, MissReason::kAbsent);
  EXPECT_EQ(all[0].lease_deadline, all[2].lease_deadline);
  rig_.agent->Audit();
}

TEST_F(SequencesTest, AGivenSumIsPublishedAndLeasedAsItWasGiven) {
  AgentRig rig({.disk = false});  // A disk would prove the block first.
  const BlockRun run = rig.NameRun(rig.session, 1, 1);
  const std::vector<ReservationId> ids = rig.Reserve(rig.session, 1, 1);
  const PayloadSum given{.hi = 1, .lo = 2};
  rig.agent->sessions().reservations().NoteSum(rig.session, ids[0], given);
  EXPECT_EQ(rig.Commit(rig.session, ids), 1);
  const Onboarded hit = *rig.Run(rig.agent->flows().onboarder.Onboard(RequestOf(run)));
  ASSERT_EQ(hit.blocks.size(), 1);
  EXPECT_EQ(hit.blocks[0].sum, given);
}

TEST_F(SequencesTest, ASuspectedBlockThatChangedIsDroppedAtOnce) {
  rig_.PutOnDisk(rig_.session, 1, 2);
  const BlockRun run = rig_.NameRun(rig_.session, 1, 2);
  const Onboarded hit = *rig_.Run(rig_.agent->flows().onboarder.Onboard(RequestOf(run)));
  rig_.Host(rig_.session, hit.blocks[0].offset)[7] ^= std::byte{1};
  for (const BlockKey& key : run.keys) rig_.agent->flows().host_prover.Suspect(key);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.agent->stats().host.verify_failures, 1);
  EXPECT_FALSE(rig_.agent->index().In(Tier::kHost, run.keys[0])) << "although it is leased";
  std::vector<LeaseId> leases;
  for (const LeasedBlock& block : hit.blocks) leases.push_back(block.lease);
  EXPECT_EQ(rig_.agent->sessions().leases().HostBlockOf(rig_.session, leases[1]), run.keys[1]);
  EXPECT_EQ(rig_.agent->sessions().leases().HostBlockOf(rig_.Open(0), leases[1]), std::nullopt);
  rig_.agent->sessions().leases().Release(rig_.session, leases);
  EXPECT_EQ(rig_.agent->host().used_bytes(), kRigBlockBytes) << "the slot is free";
  EXPECT_TRUE(rig_.agent->index().In(Tier::kHost, run.keys[1])) << "it is whole";
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 2), 2) << "the disk has it";
}

// A damaged block of a hot prefix was served for as long as the leases of its readers overlapped,
// and puts of it were answered "present".
TEST_F(SequencesTest, ADamagedBlockIsReplacedWhileItsReadersOverlapTheirLeases) {
  AgentRig rig({.disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 3), 3);
  const BlockRun run = rig.NameRun(rig.session, 1, 3);
  const Onboarded before = *rig.Run(rig.Onboard(rig.session, 1, 3, kShort));
  rig.Host(rig.session, before.blocks[1].offset)[7] ^= std::byte{1};
  rig.agent->flows().host_prover.Suspect(run.keys[1]);
  rig.Pass(absl::Milliseconds(1));
  rig.agent->Audit();
  EXPECT_EQ(rig.agent->residency().table(run.domain)->blocks_in(Tier::kHost), 2);
  EXPECT_EQ(rig.Hits(rig.session, 1, 3), 1);
  EXPECT_EQ(rig.Hits(rig.session, 2, 1), 0);
  EXPECT_EQ(rig.Put(rig.session, 1, 3), 1) << "the damaged block alone is put again";
  const Onboarded after = *rig.Run(rig.Onboard(rig.session, 1, 3, kShort));
  ASSERT_EQ(after.blocks.size(), 3);
  EXPECT_NE(after.blocks[1].offset, before.blocks[1].offset) << "its slot is still leased";
  EXPECT_EQ(rig.Hits(rig.session, 1, 3), 3);
  rig.agent->Audit();
  rig.Pass(kLeaseDuration + kLeaseGrace + absl::Seconds(1));
  EXPECT_EQ(rig.agent->host().used_bytes(), 3 * kRigBlockBytes);
  EXPECT_EQ(rig.agent->index().pinned_bytes(), 0);
  EXPECT_EQ(rig.agent->stats().host.verify_failures, 1);
  rig.agent->Audit();
}

TEST_F(SequencesTest, ABlockThatIsDamagedWhileItsRequestWaitsIsNotLeased) {
  AgentRig rig({.disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, 3), 3);
  std::vector<OnboardRequest> requests = {RequestOf(rig.NameRun(rig.session, 1, 3)),
                                          RequestOf(rig.NameRun(rig.session, 1, 3))};
  requests[1].run.is_set = true;
  std::vector<Onboarder::Brought> brought =
      rig.Run(rig.agent->flows().onboarder.BringAll(&requests));
  ASSERT_TRUE(rig.agent->flows().host_prover.Condemn(brought[0].blocks[1].pin));
  EXPECT_FALSE(rig.agent->flows().host_prover.Condemn(brought[1].blocks[1].pin));
  const auto leased = [&](size_t i) {
    return *rig.agent->flows().onboarder.GrantLeases(requests[i], std::move(brought[i]));
  };
  const Onboarded of_run = leased(0);
  EXPECT_EQ(IndicesOf(of_run), std::vector<size_t>{0});
  EXPECT_EQ(of_run.missed, MissReason::kDamaged);
  const Onboarded of_set = leased(1);
  EXPECT_EQ(IndicesOf(of_set), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(of_set.missed, MissReason::kDamaged);
  rig.agent->Audit();
}

// A worker computes again what it did not get, so a put that meets a damaged copy on the disk must
// replace it: it was answered "present", and the next reader found the same damage.
TEST_F(SequencesTest, APutReplacesDamagedCopiesOnTheDisk) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 6), 6);
  rig_.EvictHost();
  for (uint64_t bit = 0; bit < 6; ++bit) {
    rig_.media.FlipBit({.segment = SegmentId{0}, .offset = bit * 2 * kRigBlockBytes},
                       8 * (kRigBlockBytes + 99));
  }
  EXPECT_EQ(rig_.PutOnDisk(rig_.session, 1, 6), 6);
  EXPECT_EQ(rig_.agent->disks().set()->stats().verify_failures, 6);
  EXPECT_EQ(rig_.agent->disks().set()->block_count(), 6);
  rig_.EvictHost();
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 6), 6);
}

TEST_F(SequencesTest, APutOfWhatADiskHasWritesNothingMore) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 6), 6);
  rig_.EvictHost();
  EXPECT_EQ(rig_.PutOnDisk(rig_.session, 1, 6), 6);
  EXPECT_EQ(rig_.agent->stats().offload.written, 6);
  EXPECT_EQ(rig_.agent->disks().set()->stats().inserts, 6);
  EXPECT_EQ(rig_.agent->disks().set()->stats().verified, 6);
}

// LateByteThreads run no work before `begin` is set.
class LateByteThreads final : public ByteThreads {
 public:
  explicit LateByteThreads(Executor* executor) : begin(executor) {}
  Task<void> Run(Work work) override {
    co_await begin.WaitUntil(absl::InfiniteFuture());
    work();
  }
  Event begin;
};

TEST_F(SequencesTest, MoreSuspectsThanAllowedAreForgotten) {
  AgentRig rig({.slots = 2048, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 1, kMaxSuspects + 3), kMaxSuspects + 3);
  const std::vector<BlockKey> keys = rig.NameRun(rig.session, 1, kMaxSuspects + 3).keys;
  LateByteThreads byte_threads(&rig.executor);
  TierStats stats;
  HostProver prover({.byte_threads = &byte_threads,
                     .scope = rig.agent->scope(),
                     .index = &rig.agent->index(),
                     .stats = &stats});
  // The first block is being verified; the others wait behind it.
  for (const BlockKey& key : keys) prover.Suspect(key);
  for (const BlockKey& key : keys) prover.Suspect(key);
  byte_threads.begin.Set();
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(stats.verified, kMaxSuspects + 1);
}

TEST_F(SequencesTest, ABlockWithAFalseSumReachesNoPeer) {
  AgentRig rig({.disk = false});
  const std::vector<ReservationId> ids = rig.Reserve(rig.session, 1, 2);
  rig.agent->sessions().reservations().NoteSum(rig.session, ids[0], {.hi = 1, .lo = 2});
  ASSERT_EQ(rig.Commit(rig.session, ids), 2);
  const std::vector<BlockKey> keys = rig.NameRun(rig.session, 1, 2).keys;
  const absl::Time deadline = rig.executor.Now() + kShort;
  const auto serves = [&](const BlockKey& key) {
    return rig.Run(rig.agent->flows().peer_server.Serve(DomainId{}, key, deadline)).has_value();
  };
  EXPECT_FALSE(serves(keys[0]));
  EXPECT_TRUE(serves(keys[1]));
  EXPECT_EQ(rig.agent->stats().host.verify_failures, 1);
}

TEST_F(SequencesTest, AnothersReservationTakesNoSum) {
  const std::vector<ReservationId> ids = rig_.Reserve(rig_.session, 1, 1);
  const SessionId other = rig_.Open(0);
  rig_.agent->sessions().reservations().NoteSum(other, ids[0], {.hi = 1, .lo = 2});
  EXPECT_EQ(rig_.Commit(rig_.session, ids), 1);
  const Onboarded hit =
      *rig_.Run(rig_.agent->flows().onboarder.Onboard(RequestOf(rig_.NameRun(rig_.session, 1, 1))));
  ASSERT_EQ(hit.blocks.size(), 1);
  EXPECT_EQ(hit.blocks[0].sum, SumPayload(rig_.Host(rig_.session, hit.blocks[0].offset)));
}

}  // namespace
}  // namespace kvtier::testing
