#include "coordinator/coordinator.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/reports.h"

namespace kvtier {
namespace {

using namespace ::kvtier::testing;  // NOLINT: builders of this folder.

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Epoch kEpoch{42};

constexpr uint64_t kStore = 7;  // Id of a store of settings.

class CoordinatorTest : public ::testing::Test {
 protected:
  // Returns how many of `keys` are located for `asker`.
  size_t Located(int asker, const std::vector<uint64_t>& keys) {
    std::vector<PeerName> names;
    for (const uint64_t key : keys) names.push_back(NumberedName(key));
    coordinator_.Audit();
    return coordinator_.Locate({.asker = TestNode(asker), .names = std::move(names)}).size();
  }
  ReportReply Tell(const Report& report) { return *coordinator_.OnReport(report); }
  NodeState StateOf(int node) {
    for (const NodeView& view : coordinator_.snapshot().nodes) {
      if (view.id == TestNode(node)) return view.state;
    }
    ADD_FAILURE() << "node " << node << " is not known";
    return NodeState::kSilent;
  }

  ManualClock clock_;
  Coordinator coordinator_{&clock_, kEpoch, {.max_nodes = 3, .max_keys = 100}};
};

TEST_F(CoordinatorTest, ASnapshotMakesANodeLiveAndItsBlocksLocated) {
  const ReportReply reply = Tell(SnapshotOf(1, {AddOf(1), AddOf(2, Tier::kDisk)}));
  EXPECT_EQ(reply.coordinator_epoch, kEpoch);
  EXPECT_EQ(reply.next_sequence, 2);
  EXPECT_FALSE(reply.resync);
  EXPECT_EQ(StateOf(1), NodeState::kLive);
  const LocateReply found =
      coordinator_.Locate({.asker = TestNode(2), .names = {NumberedName(1), NumberedName(2)}});
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0][0].node, TestNode(1));
  EXPECT_EQ(found[0][0].address, "10.0.0.1:7301");
  EXPECT_EQ(found[0][0].tier, Tier::kHost);
  EXPECT_EQ(found[1][0].tier, Tier::kDisk);
}

TEST_F(CoordinatorTest, ANodeThatFollowsEarlierSettingsOfItsStoreIsToldOfTheTenants) {
  EXPECT_FALSE(Tell(SnapshotOf(1, {})).tenants.has_value()) << "settings are unknown";
  const ClusterTenants here = {
      .store = kStore, .version = 3, .settings = {{"acme", {.name = "acme"}}}};
  coordinator_.SetTenants(here);
  Report report = DeltasOf(1, kEpoch, 0, {});
  for (const SettingsStamp& followed :
       {SettingsStamp(), SettingsStamp{.store = kStore, .version = 2},
        SettingsStamp{.store = kStore, .version = 3, .sum = here.Stamp().sum + 1}}) {
    report.tenants = followed;
    const ReportReply reply = Tell(report);
    EXPECT_EQ(reply.tenants, here) << followed.version;
    EXPECT_FALSE(reply.tenants_differ);
  }
  report.tenants = here.Stamp();
  EXPECT_FALSE(Tell(report).tenants.has_value());
  EXPECT_FALSE(Tell(report).tenants_differ);
}

// Once, a report that brought settings with a later version set them for all nodes: any program
// that could reach the port made one tenant a member of another.
TEST_F(CoordinatorTest, WhatANodeFollowsIsShownAndChangesNothingHere) {
  const ClusterTenants here = {.store = kStore, .version = 3};
  coordinator_.SetTenants(here);
  Report report = SnapshotOf(1, {});
  for (const SettingsStamp& followed :
       {SettingsStamp{.store = kStore, .version = 5}, SettingsStamp{.store = 9, .version = 1},
        SettingsStamp{.store = kStore, .version = uint64_t{1} << 62},
        SettingsStamp{.store = UINT64_MAX, .version = UINT64_MAX, .sum = UINT64_MAX}}) {
    report.tenants = followed;
    const ReportReply reply = Tell(report);
    EXPECT_TRUE(reply.tenants_differ) << followed.version;
    EXPECT_FALSE(reply.tenants.has_value()) << followed.version;
    const CoordinatorView view = coordinator_.snapshot();
    EXPECT_EQ(view.tenants, here.Stamp());
    EXPECT_EQ(view.nodes.at(0).tenants, followed);
    EXPECT_TRUE(view.nodes.at(0).tenants_differ);
  }
  EXPECT_EQ(Tell(SnapshotOf(2, {})).tenants, here);
}

TEST_F(CoordinatorTest, UnknownSettingsAreToldToNobodyAndEveryNodesDiffer) {
  Report report = SnapshotOf(1, {});
  report.tenants = {.store = kStore, .version = 3};
  EXPECT_TRUE(Tell(report).tenants_differ);
  EXPECT_FALSE(Tell(report).tenants.has_value());
  EXPECT_FALSE(Tell(SnapshotOf(2, {})).tenants_differ) << "it follows none";
}

TEST_F(CoordinatorTest, NodesOfAReplacedStoreAreToldOfTheOneInItsPlace) {
  ClusterTenants here = {.store = kStore, .version = 1};
  coordinator_.SetTenants(here);
  Report report = SnapshotOf(1, {});
  report.tenants = {.store = 9, .version = 40};
  EXPECT_TRUE(Tell(report).tenants_differ);
  here.replaced = {9};
  coordinator_.SetTenants(here);
  EXPECT_FALSE(coordinator_.snapshot().nodes.at(0).tenants_differ);
  EXPECT_EQ(Tell(report).tenants, here);
}

TEST_F(CoordinatorTest, OfASetEachKeyIsAnsweredAndOfARunTheLeadingOnes) {
  Tell(SnapshotOf(1, {AddOf(1), AddOf(3), AddOf(4)}));
  LocateQuery query{.asker = TestNode(2), .scope = LocateScope::kEach};
  for (const uint64_t key : {1, 2, 3, 5, 4}) query.names.push_back(NumberedName(key));
  const LocateReply each = coordinator_.Locate(query);
  ASSERT_EQ(each.size(), 5);
  for (const size_t held : {0, 2, 4}) EXPECT_EQ(each[held].at(0).node, TestNode(1));
  EXPECT_TRUE(each[1].empty() && each[3].empty());
  query.scope = LocateScope::kLeading;
  EXPECT_EQ(coordinator_.Locate(query).size(), 1);
}

TEST_F(CoordinatorTest, TheAskerIsNeverAmongTheHolders) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  EXPECT_EQ(Located(1, {1}), 0);
  EXPECT_EQ(Located(2, {1}), 1);
}

TEST_F(CoordinatorTest, NodesThatTheAskerAvoidsAreNamedLast) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  Tell(SnapshotOf(2, {AddOf(1, Tier::kDisk)}));
  LocateQuery query{.asker = TestNode(3), .names = {NumberedName(1)}};
  EXPECT_EQ(coordinator_.Locate(query)[0][0].node, TestNode(1));
  query.avoided = {TestNode(1), TestNode(9)};  // Nobody knows the second one.
  const LocateReply reply = coordinator_.Locate(query);
  ASSERT_EQ(reply[0].size(), 2u);
  EXPECT_EQ(reply[0][0].node, TestNode(2));
}

TEST_F(CoordinatorTest, DeltasFollowInOrder) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  EXPECT_EQ(Tell(DeltasOf(1, kEpoch, 1, {AddOf(2), RemoveOf(1)})).next_sequence, 3);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(Located(2, {2}), 1);
}

TEST_F(CoordinatorTest, AReportSentAgainChangesNothing) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  const Report report = DeltasOf(1, kEpoch, 1, {RemoveOf(1), AddOf(1)});
  Tell(report);
  Tell(DeltasOf(1, kEpoch, 3, {RemoveOf(1)}));
  const ReportReply reply = Tell(report);  // Late: would add 1 again.
  EXPECT_EQ(reply.next_sequence, 4);
  EXPECT_FALSE(reply.resync);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(coordinator_.snapshot().stats.duplicate_deltas, 2);
}

TEST_F(CoordinatorTest, OfAnOverlappingReportOnlyTheNewPartCounts) {
  Tell(SnapshotOf(1, {AddOf(1), RemoveOf(1)}));
  EXPECT_EQ(Tell(DeltasOf(1, kEpoch, 0, {AddOf(1), RemoveOf(1), AddOf(3)})).next_sequence, 3);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(Located(2, {3}), 1);
}

TEST_F(CoordinatorTest, AGapLosesTheNodeUntilItsNextSnapshot) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 2, {AddOf(3)})).resync);
  EXPECT_EQ(StateOf(1), NodeState::kSyncing);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(Located(2, {3}), 0);
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 1, {AddOf(2)})).resync);  // Too late for a snapshot.
  Report snapshot = SnapshotOf(1, {AddOf(2)});
  snapshot.first_sequence = 3;
  EXPECT_FALSE(Tell(snapshot).resync);
  EXPECT_EQ(Located(2, {2}), 1);
}

TEST_F(CoordinatorTest, AHeartbeatAheadOfTheStreamIsAGap) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  EXPECT_FALSE(Tell(DeltasOf(1, kEpoch, 1, {})).resync);
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 2, {})).resync);
}

TEST_F(CoordinatorTest, ANodeNotKnownIsAskedForASnapshot) {
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 0, {AddOf(1)})).resync);
  EXPECT_EQ(Located(2, {1}), 0);
}

TEST_F(CoordinatorTest, AStreamToldToAnotherCoordinatorIsAskedForASnapshot) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  EXPECT_TRUE(Tell(DeltasOf(1, Epoch{41}, 1, {AddOf(2)})).resync);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(coordinator_.snapshot().stats.resyncs, 1);
}

TEST_F(CoordinatorTest, ANewIncarnationVoidsWhatTheLastOneHeld) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  Report reborn = DeltasOf(1, kEpoch, 1, {AddOf(2)});
  reborn.node_epoch = {2};
  EXPECT_TRUE(Tell(reborn).resync);
  EXPECT_EQ(Located(2, {1}), 0);
  Tell(SnapshotOf(1, {AddOf(3)}, /*node_epoch=*/2));
  EXPECT_EQ(Located(2, {3}), 1);
}

// Makes a report of another agent of node 1, which started later.
Report OfNamesake(Report report) {
  report.node_epoch = {2};
  report.address = "10.0.0.99:7301";
  return report;
}

// Once, each report of one agent made the coordinator forget the other and request a snapshot, for
// ever, and no log line said so.
TEST_F(CoordinatorTest, TwoAgentsOfOneNameDoNotUndoEachOthersReports) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  Tell(OfNamesake(SnapshotOf(1, {AddOf(2)})));
  for (uint64_t i = 1; i <= 10; ++i) {
    const absl::Status refused = coordinator_.OnReport(DeltasOf(1, kEpoch, 1, {})).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("node-1"), HasSubstr("10.0.0.99:7301"), HasSubstr("--node_id")));
    EXPECT_FALSE(Tell(OfNamesake(DeltasOf(1, kEpoch, i, {AddOf(2 + i)}))).resync);
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(Located(2, {2, 3, 12}), 3);
  const CoordinatorView view = coordinator_.snapshot();
  EXPECT_EQ(view.stats.snapshots, 2);
  EXPECT_EQ(view.stats.resyncs, 0);
  EXPECT_EQ(view.stats.refused_namesakes, 10);
}

TEST_F(CoordinatorTest, ANamesakeIsToldOfForAMinuteAfterItsLastReport) {
  const auto namesake = [&] { return coordinator_.snapshot().nodes[0].namesake_address; };
  Tell(SnapshotOf(1, {}));
  Tell(OfNamesake(SnapshotOf(1, {})));
  EXPECT_FALSE(coordinator_.OnReport(DeltasOf(1, kEpoch, 0, {})).ok());
  EXPECT_EQ(namesake(), "");  // The report may have been in flight when its agent ended.
  EXPECT_FALSE(coordinator_.OnReport(DeltasOf(1, kEpoch, 0, {})).ok());
  EXPECT_EQ(namesake(), "10.0.0.1:7301");
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(coordinator_.snapshot().nodes[0].namesake_silence, absl::Seconds(60));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(namesake(), "");
}

TEST_F(CoordinatorTest, AnAgentHasItsNameAgainWhenTheLaterOneIsSilent) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  Tell(OfNamesake(SnapshotOf(1, {AddOf(2)})));
  clock_.Advance(CoordinatorOptions{}.node_timeout);
  EXPECT_FALSE(coordinator_.OnReport(SnapshotOf(1, {AddOf(1)})).ok());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(Tell(SnapshotOf(1, {AddOf(1)})).resync);
  EXPECT_EQ(Located(2, {1}), 1);
  EXPECT_FALSE(coordinator_.OnReport(OfNamesake(DeltasOf(1, kEpoch, 1, {}))).ok());
}

TEST_F(CoordinatorTest, AnAgentThatStartsAgainAndAgainIsNoNamesake) {
  for (uint64_t epoch = 1; epoch <= 3 * Coordinator::kRememberedEpochs; ++epoch) {
    EXPECT_FALSE(Tell(SnapshotOf(1, {AddOf(epoch)}, epoch)).resync);
    EXPECT_EQ(Located(2, {epoch}), 1);
  }
  EXPECT_EQ(coordinator_.snapshot().nodes[0].namesake_address, "");
  EXPECT_EQ(coordinator_.snapshot().stats.refused_namesakes, 0);
}

TEST_F(CoordinatorTest, UntilItsSnapshotEndsANodeIsNotTrusted) {
  Report begin = SnapshotOf(1, {AddOf(1)});
  begin.snapshot_end = false;
  EXPECT_FALSE(Tell(begin).resync);
  EXPECT_EQ(StateOf(1), NodeState::kSyncing);
  EXPECT_EQ(Located(2, {1}), 0);
  Report end = DeltasOf(1, kEpoch, 1, {AddOf(2)});
  end.snapshot_end = true;
  Tell(end);
  EXPECT_EQ(StateOf(1), NodeState::kLive);
  EXPECT_EQ(Located(2, {1, 2}), 2);
}

TEST_F(CoordinatorTest, ASnapshotBeginForgetsWhatTheNodeHeld) {
  Tell(SnapshotOf(1, {AddOf(1), AddOf(2)}));
  Report again = SnapshotOf(1, {AddOf(2)});
  again.first_sequence = 2;
  Tell(again);
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(Located(2, {2}), 1);
}

TEST_F(CoordinatorTest, ASilentNodeIsNotLocatedFromTheTimeoutOn) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(Located(2, {1}), 1);
  clock_.Advance(absl::Nanoseconds(1));  // No Tick() is needed.
  EXPECT_EQ(Located(2, {1}), 0);
  EXPECT_EQ(StateOf(1), NodeState::kSilent);
}

TEST_F(CoordinatorTest, ASilentNodeComesBackWholeWithItsStreamUnbroken) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  clock_.Advance(absl::Minutes(1));
  coordinator_.Tick();
  EXPECT_FALSE(Tell(DeltasOf(1, kEpoch, 1, {})).resync);
  EXPECT_EQ(Located(2, {1}), 1);
}

TEST_F(CoordinatorTest, ASilentNodeThatReturnsWithAGapIsLost) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  clock_.Advance(absl::Minutes(1));
  coordinator_.Tick();
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 5, {AddOf(2)})).resync);
  EXPECT_EQ(Located(2, {1}), 0);
}

TEST_F(CoordinatorTest, ANodeSilentForTooLongIsForgotten) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  clock_.Advance(absl::Minutes(5));
  coordinator_.Tick();
  EXPECT_EQ(coordinator_.snapshot().nodes.size(), 1);
  clock_.Advance(absl::Nanoseconds(1));
  coordinator_.Tick();
  EXPECT_TRUE(coordinator_.snapshot().nodes.empty());
  EXPECT_TRUE(coordinator_.Lookup(NumberedName(1)).empty());
  EXPECT_TRUE(Tell(DeltasOf(1, kEpoch, 1, {})).resync);
}

TEST_F(CoordinatorTest, NewTimeoutsHoldAtOnce) {
  Tell(SnapshotOf(1, {AddOf(1)}));
  clock_.Advance(absl::Seconds(2));
  coordinator_.SetTimeouts(absl::Seconds(1), absl::Seconds(1));
  EXPECT_EQ(Located(2, {1}), 0);
  coordinator_.Tick();
  EXPECT_TRUE(coordinator_.snapshot().nodes.empty());
}

TEST_F(CoordinatorTest, ANodeBeyondTheLimitIsRefusedAndCounted) {
  for (int node = 1; node <= 3; ++node)
    EXPECT_TRUE(coordinator_.OnReport(SnapshotOf(node, {})).ok());
  const auto refused = coordinator_.OnReport(SnapshotOf(4, {AddOf(1)}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("node-4"));
  EXPECT_EQ(coordinator_.snapshot().stats.refused_nodes, 1);
  EXPECT_TRUE(coordinator_.OnReport(SnapshotOf(3, {})).ok());  // A known node is still accepted.
  coordinator_.Audit();
}

// Once, names that reported a single time kept every place for five minutes.
TEST_F(CoordinatorTest, ANewNodeHasThePlaceOfTheOneThatWasSilentForLongest) {
  for (int node = 1; node <= 3; ++node) {
    Tell(SnapshotOf(node, {AddOf(static_cast<uint64_t>(node))}));
    clock_.Advance(absl::Seconds(2));
  }
  EXPECT_TRUE(coordinator_.OnReport(SnapshotOf(4, {AddOf(4)})).ok()) << "node 1 is silent for 6 s";
  EXPECT_FALSE(coordinator_.OnReport(SnapshotOf(5, {})).ok()) << "node 2 for 4 s";
  EXPECT_EQ(Located(9, {1}), 0);
  EXPECT_EQ(Located(9, {2, 3, 4}), 3);
  EXPECT_EQ(coordinator_.snapshot().stats.forgotten_nodes, 1);
}

TEST_F(CoordinatorTest, KeysBeyondTheLimitAreCountedAndTheStreamGoesOn) {
  std::vector<NamedDelta> deltas;
  for (uint64_t key = 0; key <= 100; ++key) deltas.push_back(AddOf(key));
  EXPECT_EQ(Tell(SnapshotOf(1, deltas)).next_sequence, 101);
  const CoordinatorView view = coordinator_.snapshot();
  EXPECT_EQ(view.directory_keys, 100);
  EXPECT_EQ(view.stats.refused_keys, 1);
  EXPECT_EQ(Located(2, {99}), 1);
  EXPECT_EQ(Located(2, {100}), 0);
}

TEST_F(CoordinatorTest, LookupTellsEveryCopyEvenOfNodesNotTrusted) {
  Tell(SnapshotOf(1, {AddOf(1), AddOf(1, Tier::kDisk)}));
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(coordinator_.Lookup(NumberedName(1)).size(), 2);
  EXPECT_TRUE(coordinator_.Lookup(NumberedName(2)).empty());
}

}  // namespace
}  // namespace kvtier
