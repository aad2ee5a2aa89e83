#include "agent/sessions/fair_turns.h"

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "gtest/gtest.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

// QueueExecutor runs what is posted when the test says so, one closure at a time, and lends itself
// to a caller while nothing is posted, as ThreadExecutor does.
class QueueExecutor final : public Executor {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  void Post(Closure fn) override { posted_.push_back(std::move(fn)); }
  void RunOrPost(Closure fn) override {
    if (busy_ || !posted_.empty()) return Post(std::move(fn));
    RunNow(std::move(fn));
  }
  TimerId PostAt(absl::Time, Closure) override { return {}; }
  void Cancel(TimerId) override {}
  bool OnExecutor() const override { return true; }

  bool RunOne() {
    if (posted_.empty()) return false;
    Closure fn = std::move(posted_.front());
    posted_.pop_front();
    RunNow(std::move(fn));
    return true;
  }
  void RunAll() {
    while (RunOne()) {
    }
  }
  // Keeps the executor busy until RunAll().
  void Occupy() {
    Post([] {});
  }

 private:
  void RunNow(Closure fn) {
    busy_ = true;
    fn();
    busy_ = false;
  }
  std::deque<Closure> posted_;
  bool busy_ = false;
};

class FairTurnsTest : public ::testing::Test {
 protected:
  static constexpr size_t kDomains = 4;

  void Call(uint32_t domain, const std::string& name, size_t cost = 1) {
    turns_->Run(
        cost, [domain] { return DomainId{domain}; }, [this, name] { begun_.push_back(name); });
  }
  void Calls(uint32_t domain, const std::string& name, size_t count, size_t cost = 1) {
    for (size_t i = 1; i <= count; ++i) Call(domain, absl::StrCat(name, i), cost);
  }
  // Begins a call that takes several turns and notes each.
  void LongCall(uint32_t domain, const std::string& name, int turns) {
    turns_->Run(
        1'000'000, [domain] { return DomainId{domain}; },
        [this, domain, name, turns] { scope_.Spawn(WorkInTurns(DomainId{domain}, name, turns)); });
  }
  Task<void> WorkInTurns(DomainId domain, std::string name, int turns) {
    for (int turn = 1; turn <= turns; ++turn) {
      if (turn > 1) co_await turns_->GiveWay(domain);
      begun_.push_back(absl::StrCat(name, turn));
      if (during_) during_(begun_.back());
    }
  }
  using Names = std::vector<std::string>;

  QueueExecutor executor_;
  std::unique_ptr<FairTurns> turns_ = std::make_unique<FairTurns>(&executor_, kDomains);
  Names begun_;
  std::function<void(const std::string&)> during_;  // Called in each turn of a long call.
  TaskScope scope_{&executor_};                     // Destroyed first.
};

TEST_F(FairTurnsTest, WhereNothingWaitsACallBeginsAtOnce) {
  Call(0, "a");
  EXPECT_EQ(begun_, Names{"a"}) << "before Run() returned";
  Call(0, "b");
  EXPECT_EQ(begun_, (Names{"a", "b"}));
}

TEST_F(FairTurnsTest, ACallWaitsForOneOfAnotherTenantsAndNotForAll) {
  executor_.Occupy();
  Calls(0, "a", 16);
  Call(1, "b");
  executor_.RunAll();
  ASSERT_EQ(begun_.size(), 17u);
  EXPECT_EQ(begun_[0], "a1");
  EXPECT_EQ(begun_[1], "b");
  EXPECT_EQ(begun_[16], "a16");
}

// Calls of an old domain and of the new one wait while the executor is busy.
TEST_F(FairTurnsTest, ADomainThatWasAddedTakesTurnsAsTheOthers) {
  executor_.Occupy();
  turns_->AddDomain();
  Calls(0, "a", 3);
  Call(kDomains, "newcomer");
  executor_.RunAll();
  ASSERT_EQ(begun_.size(), 4u);
  EXPECT_TRUE(begun_[0] == "newcomer" || begun_[1] == "newcomer");
}

TEST_F(FairTurnsTest, WhatArrivesDuringACallHasItsSayBeforeTheNextOne) {
  executor_.Occupy();
  Calls(0, "a", 2);
  turns_->Run(
      1, [] { return DomainId{0}; },
      [this] {
        begun_.push_back("long");
        Call(1, "b");
      });
  Calls(0, "c", 2);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"a1", "a2", "long", "b", "c1", "c2"}));
}

TEST_F(FairTurnsTest, LargeCallsAreFewerTurns) {
  executor_.Occupy();
  Calls(0, "large", 3, 10);
  Calls(1, "small", 12, 2);
  executor_.RunAll();
  EXPECT_EQ(begun_,
            (Names{"large1", "small1", "small2", "small3", "small4", "small5", "large2", "small6",
                   "small7", "small8", "small9", "small10", "large3", "small11", "small12"}));
}

TEST_F(FairTurnsTest, AHeavyTenantHasMoreTurns) {
  turns_->SetWeight(DomainId{1}, 2);
  executor_.Occupy();
  Calls(0, "light", 3, 10);
  Calls(1, "heavy", 6, 10);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"light1", "heavy1", "heavy2", "light2", "heavy3", "heavy4", "light3",
                           "heavy5", "heavy6"}));
}

TEST_F(FairTurnsTest, PausesOfAHeavyTenantAreCheaperAndItsWeightMayChangeMeanwhile) {
  turns_->SetWeight(DomainId{1}, 2);
  during_ = [this](const std::string& turn) {
    if (turn == "heavy5") turns_->SetWeight(DomainId{1}, 1);
  };
  executor_.Occupy();
  LongCall(0, "light", 5);
  LongCall(1, "heavy", 7);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"light1", "heavy1", "heavy2", "heavy3", "light2", "heavy4", "heavy5",
                           "light3", "heavy6", "light4", "heavy7", "light5"}));
}

TEST_F(FairTurnsTest, NobodySavesUpTurns) {
  executor_.Occupy();
  Calls(0, "a", 100);
  executor_.RunAll();
  begun_.clear();
  executor_.Occupy();
  Calls(0, "a", 3);
  Calls(1, "b", 3);
  executor_.RunAll();
  EXPECT_EQ(begun_.size(), 6u);
  begun_.clear();
  executor_.Occupy();
  Calls(2, "c", 3);
  Calls(1, "b", 3);
  executor_.RunAll();
  EXPECT_EQ(begun_.back(), "c3") << "the one that was idle is level with the others, not ahead";
}

TEST_F(FairTurnsTest, ACallOfNobodyIsRefusedAtOnce) {
  executor_.Occupy();
  Calls(0, "a", 3);
  turns_->Run(1, [] { return std::nullopt; }, [this] { begun_.push_back("nobody's"); });
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"nobody's", "a1", "a2", "a3"}));
}

TEST_F(FairTurnsTest, ALongCallPausesForAnotherTenantsCallAlone) {
  executor_.Occupy();
  LongCall(0, "long", 3);
  Calls(0, "a", 1);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"long1", "long2", "long3", "a1"})) << "one tenant's calls do not mix";
  begun_.clear();
  executor_.Occupy();
  LongCall(0, "long", 3);
  Calls(0, "a", 1);
  Calls(1, "b", 2);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"b1", "long1", "b2", "long2", "long3", "a1"}));
}

TEST_F(FairTurnsTest, WhatArrivesDuringATurnWaitsForThatTurnAlone) {
  during_ = [this](const std::string& turn) {
    if (turn == "long2") Call(1, "b");
  };
  LongCall(0, "long", 4);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"long1", "long2", "b", "long3", "long4"}));
}

TEST_F(FairTurnsTest, LongCallsOfSeveralTenantsTakeTurns) {
  executor_.Occupy();
  LongCall(0, "a", 3);
  LongCall(1, "b", 3);
  LongCall(2, "c", 2);
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3"}));
}

TEST_F(FairTurnsTest, ACallMayBeGivenUpWhileItPauses) {
  auto scope = std::make_unique<TaskScope>(&executor_);
  executor_.Occupy();
  turns_->Run(
      1, [] { return DomainId{0}; },
      [&] { scope->Spawn(WorkInTurns(DomainId{0}, "given up", 2)); });
  Call(1, "b");
  executor_.RunOne();
  executor_.RunOne();
  executor_.RunOne();
  executor_.RunOne();
  ASSERT_EQ(begun_, Names{"given up1"});
  scope.reset();
  executor_.RunAll();
  EXPECT_EQ(begun_, (Names{"given up1", "b"}));
  Call(0, "a");
  EXPECT_EQ(begun_.back(), "a") << "nothing waits any more";
}

TEST_F(FairTurnsTest, WhatIsPostedMayOutliveTheTurns) {
  executor_.Occupy();
  Calls(0, "a", 2);
  executor_.RunOne();
  executor_.RunOne();
  executor_.RunOne();
  turns_.reset();
  executor_.RunAll();
  EXPECT_TRUE(begun_.empty());
}

// The last call may drop the owner of the turns, which destroys the turns.
TEST_F(FairTurnsTest, TheLastCallMayEndTheTurns) {
  executor_.Occupy();
  Call(0, "a");
  turns_->Run(1, [] { return DomainId{0}; }, [this] { turns_.reset(); });
  executor_.RunAll();
  EXPECT_EQ(turns_, nullptr);
  turns_ = std::make_unique<FairTurns>(&executor_, kDomains);
  turns_->Run(1, [] { return DomainId{0}; }, [this] { turns_.reset(); });
  EXPECT_EQ(turns_, nullptr);
}

// Tenants that always have calls waiting get equal parts, but for a few calls, however much one
// asks.
TEST_F(FairTurnsTest, EachHasItsPartOfWhatBegins) {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<uint64_t> had(kDomains);
  std::vector<size_t> waiting(kDomains);
  constexpr size_t kMost = 50;
  const auto call = [&](uint32_t domain) {
    // The first domain's calls are large and many; the others' are small and few.
    const size_t cost = 1 + random() % (domain == 0 ? kMost : 5);
    ++waiting[domain];
    turns_->Run(
        cost, [domain] { return DomainId{domain}; },
        [&, domain, cost] {
          --waiting[domain];
          had[domain] += cost;
        });
  };
  executor_.Occupy();
  for (uint32_t domain = 0; domain < kDomains; ++domain) call(domain);
  for (int step = 0; step < 20'000; ++step) {
    for (uint32_t domain = 0; domain < kDomains; ++domain) {
      const size_t wanted = domain == 0 ? 64 : 2;
      while (waiting[domain] < wanted) call(domain);
    }
    ASSERT_TRUE(executor_.RunOne());
    for (uint32_t domain = 1; domain < kDomains; ++domain) {
      ASSERT_LE(had[domain], had[0] + 2 * kMost + 10) << step;
      ASSERT_GE(had[domain] + 2 * kMost + 10, had[0]) << step;
    }
  }
  executor_.RunAll();
}

}  // namespace
}  // namespace kvtier
