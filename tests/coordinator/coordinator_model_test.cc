// Tests agents that report to a coordinator over a link that loses, repeats and delays, while both
// sides restart. The reference remembers what each incarnation held at each position of its stream;
// whatever the coordinator trusts must be exactly that.
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "coordinator/coordinator.h"
#include "core/log.h"
#include "gtest/gtest.h"
#include "tests/coordinator/reports.h"
#include "tests/testing/patience.h"

namespace kvtier {
namespace {

using namespace ::kvtier::testing;  // NOLINT: builders of this folder.

constexpr int kAgents = 5;
// Number of the node whose name one more agent claims.
constexpr int kNamesakeOf = 0;
constexpr uint64_t kNamesakeEpochs = 1000;  // First of its epochs.
constexpr uint64_t kKeys = 60;
constexpr size_t kChunk = 7;  // Number of deltas in one report.

using Copy = std::pair<uint64_t, Tier>;  // Key number and tier.
using Holding = std::set<Copy>;

// ModelAgent is a minimal agent that follows the protocol: numbers that never go back within an
// incarnation, a queue of deltas that are not acknowledged, a snapshot on request.
class ModelAgent {
 public:
  explicit ModelAgent(int number, uint64_t epoch = 0) : number_(number), epoch_(epoch) {
    Restart();
  }

  void Restart() {
    ++epoch_;
    next_number_ = 0;
    coordinator_ = {};
    held_.clear();
    StartSnapshot();
  }
  void Change(const Copy& copy) {
    const bool add = held_.erase(copy) == 0;
    if (add) held_.insert(copy);
    Queue({.kind = add ? Delta::Kind::kAdd : Delta::Kind::kRemove,
           .tier = copy.second,
           .name = NumberedName(copy.first)});
    past_[{epoch_, next_number_}] = held_;
  }
  Report NextReport() const {
    Report report = DeltasOf(number_, coordinator_, first_number(), {});
    report.node_epoch = {epoch_};
    for (size_t i = 0; i < std::min(kChunk, queue_.size()); ++i) {
      report.deltas.push_back(queue_[i]);
    }
    report.snapshot_begin = first_number() == snapshot_begin_ && !begun_;
    if (!ended_ && report.first_sequence + report.deltas.size() >= snapshot_end_) {
      report.deltas.resize(snapshot_end_ - report.first_sequence);
      report.snapshot_end = true;
    }
    return report;
  }
  void OnReply(const ReportReply& reply) {
    coordinator_ = reply.coordinator_epoch;
    if (reply.resync) return StartSnapshot();
    begun_ = true;
    ended_ = ended_ || reply.next_sequence >= snapshot_end_;
    while (!queue_.empty() && first_number() < reply.next_sequence) queue_.pop_front();
  }

  int number() const { return number_; }
  const Holding& held() const { return held_; }
  // Returns what incarnation `epoch` held when its stream was at `position`.
  const Holding& PastAt(uint64_t epoch, uint64_t position) { return past_.at({epoch, position}); }

 private:
  uint64_t first_number() const { return next_number_ - queue_.size(); }
  void Queue(const NamedDelta& delta) {
    queue_.push_back(delta);
    ++next_number_;
  }
  void StartSnapshot() {
    queue_.clear();
    snapshot_begin_ = next_number_;
    begun_ = false;
    ended_ = false;
    for (const auto& [key, tier] : held_) Queue(AddOf(key, tier));
    snapshot_end_ = next_number_;
    past_[{epoch_, next_number_}] = held_;
  }

  const int number_;
  uint64_t epoch_;
  Epoch coordinator_;
  uint64_t next_number_ = 0;
  uint64_t snapshot_begin_ = 0;
  uint64_t snapshot_end_ = 0;
  bool begun_ = false;  // Whether the coordinator answered the snapshot's first report,
  bool ended_ = false;  // and its last.
  std::deque<NamedDelta> queue_;
  Holding held_;
  std::map<std::pair<uint64_t, uint64_t>, Holding> past_;
};

class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    for (int i = 0; i < kAgents; ++i) agents_.emplace_back(i);
    agents_.emplace_back(kNamesakeOf, kNamesakeEpochs);
    RestartCoordinator();
  }

  void Step() {
    ModelAgent& agent = agents_[random_() % agents_.size()];
    const uint32_t what = random_() % 1000;
    if (what < 500) {
      agent.Change({random_() % kKeys, random_() % 2 == 0 ? Tier::kHost : Tier::kDisk});
    } else if (what < 900) {
      Send(agent);
    } else if (what < 960 && !sent_.empty()) {
      // An old report arrives once more; nobody waits for its answer.
      coordinator_->OnReport(sent_[random_() % sent_.size()]).IgnoreError();
    } else if (what < 970) {
      agent.Restart();
    } else if (what < 972) {
      RestartCoordinator();
    } else {
      clock_.Advance(absl::Milliseconds(random_() % 8000));
      coordinator_->Tick();
    }
    CheckWhatIsTrusted();
  }

  // Ends the faults: every agent reports until it has nothing to say. Of two agents with one name
  // the coordinator goes on to follow one, and refuses the other.
  void Settle() {
    for (int round = 0; round < 200; ++round) Round();
    const CoordinatorView settled = coordinator_->snapshot();
    for (int round = 0; round < 20; ++round) Round();
    const CoordinatorView later = coordinator_->snapshot();
    ASSERT_EQ(later.stats.snapshots, settled.stats.snapshots);
    ASSERT_EQ(later.stats.resyncs, settled.stats.resyncs);
    ASSERT_EQ(later.stats.refused_namesakes, settled.stats.refused_namesakes + 20);
    CheckWhatIsTrusted();
    for (uint64_t key = 0; key < kKeys; ++key) {
      size_t holders = 0;
      for (const NodeView& view : later.nodes) {
        const ModelAgent& agent = AgentOf(view);
        holders +=
            agent.held().contains({key, Tier::kHost}) || agent.held().contains({key, Tier::kDisk})
                ? 1
                : 0;
      }
      const LocateReply found =
          coordinator_->Locate({.asker = TestNode(kAgents), .names = {NumberedName(key)}});
      ASSERT_EQ(found.empty() ? 0 : found[0].size(), std::min(holders, kMaxHoldersPerReply))
          << "key " << key;
    }
  }

 private:
  void Round() {
    clock_.Advance(absl::Milliseconds(100));
    for (ModelAgent& agent : agents_) {
      const absl::StatusOr<ReportReply> reply = coordinator_->OnReport(agent.NextReport());
      if (reply.ok()) agent.OnReply(*reply);
    }
  }
  // Returns the agent that speaks for the node.
  ModelAgent& AgentOf(const NodeView& view) {
    if (view.epoch.value > kNamesakeEpochs) return agents_.back();
    return agents_[std::atoi(view.id.str().substr(5).c_str())];
  }

  void Send(ModelAgent& agent) {
    const Report report = agent.NextReport();
    sent_.push_back(report);
    if (random_() % 5 == 0) return;  // The report is lost.
    const absl::StatusOr<ReportReply> reply = coordinator_->OnReport(report);
    if (!reply.ok()) {
      // Another agent of its name reported, or this is an old report.
      ASSERT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
      return;
    }
    if (random_() % 5 == 0) return;  // The answer is lost.
    agent.OnReply(*reply);
  }

  void RestartCoordinator() {
    coordinator_ =
        std::make_unique<Coordinator>(&clock_, Epoch{++coordinator_epoch_}, CoordinatorOptions{});
  }

  void CheckWhatIsTrusted() {
    if (++checks_ % 100 == 0) coordinator_->Audit();
    for (const NodeView& view : coordinator_->snapshot().nodes) {
      if (view.state != NodeState::kLive) continue;
      Holding believed;
      for (uint64_t key = 0; key < kKeys; ++key) {
        for (const Holder& holder : coordinator_->Lookup(NumberedName(key))) {
          if (holder.node == view.id) believed.insert({key, holder.tier});
        }
      }
      ModelAgent& agent = AgentOf(view);
      ASSERT_EQ(believed, agent.PastAt(view.epoch.value, PositionOf(view)))
          << view.id.str() << " at " << PositionOf(view);
    }
  }
  // Returns the coordinator's position in a live node's stream, found with a report that is too old
  // to change anything.
  uint64_t PositionOf(const NodeView& view) {
    Report probe = DeltasOf(0, coordinator_->epoch(), 0, {});
    probe.node = view.id;
    probe.node_epoch = view.epoch;
    probe.address = view.address;
    return coordinator_->OnReport(probe)->next_sequence;
  }

  std::mt19937 random_;
  ManualClock clock_;
  uint64_t coordinator_epoch_ = 0;
  std::unique_ptr<Coordinator> coordinator_;
  std::deque<ModelAgent> agents_;
  std::vector<Report> sent_;
  uint64_t checks_ = 0;
};

TEST(CoordinatorModel, TrustsOnlyWhatANodeHeldAtThatPointOfItsStream) {
  SetLogLevel(LogLevel::kError);  // Hides warnings about the namesakes.
  // KVTIER_TEST_SEED=n replays one seed.
  const char* const chosen = std::getenv("KVTIER_TEST_SEED");
  const uint32_t first = chosen != nullptr ? std::atoi(chosen) : 1;
  const uint32_t last = chosen != nullptr ? first : testing::kSanitized ? 2 : 30;
  for (uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(::testing::Message() << "KVTIER_TEST_SEED=" << seed);
    World world(seed);
    for (int step = 0; step < 2000 && !::testing::Test::HasFatalFailure(); ++step) world.Step();
    if (!::testing::Test::HasFatalFailure()) world.Settle();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kvtier
