#include "agent/index/stored_lessons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/limits.h"
#include "core/check.h"
#include "core/reuse_lessons.h"
#include "core/task_scope.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/fake_lessons_store.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using ::testing::ElementsAre;
using testing::FakeLessonsStore;
using ::testing::HasSubstr;
using testing::SimExecutor;
using testing::SimTime;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

void Teach(ReuseHazards* hazards) {
  for (int i = 0; i < 512; ++i) hazards->Learn(ReuseState{}.Class(), 10, true);
  hazards->Conclude({});
}

std::string TaughtLessons() {
  ReuseHazards hazards;
  Teach(&hazards);
  return EncodeReuseLessons(hazards.lessons());
}

std::vector<std::string> NamesOf(const LessonsByOrder& lessons) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : lessons) names.push_back(name);
  return names;
}

// Two orders, "a" and "b", and a store.
class StoredLessonsTest : public ::testing::Test {
 protected:
  StoredLessonsTest() {
    stored_.Add("a", &a_);
    stored_.Add("b", &b_);
    stored_.Add("lru", nullptr);
  }
  // Returns what is logged meanwhile.
  std::string Load() {
    CaptureStderr();
    scope_.Spawn(stored_.Load());
    time_.RunUntil(time_.Now());
    return GetCapturedStderr();
  }
  std::string Pass(absl::Duration span) {
    CaptureStderr();
    time_.RunUntil(time_.Now() + span);
    return GetCapturedStderr();
  }
  void Start() {
    Load();
    scope_.Spawn(stored_.Run());
  }

  FakeLessonsStore store_;
  ReuseHazards a_;
  ReuseHazards b_;
  SimTime time_;
  SimExecutor executor_{&time_};
  Waits waits_{&executor_};
  StoredLessons stored_{&executor_, &waits_, &store_};
  TaskScope scope_{&executor_};
};

TEST_F(StoredLessonsTest, WhatIsLearntIsKeptOnceAMinuteAndOnlyWhenItChanged) {
  Start();
  Pass(3 * kLessonsInterval);
  EXPECT_EQ(store_.saves, 0) << "nothing is learnt yet";
  Teach(&b_);
  Pass(kLessonsInterval - absl::Seconds(1));
  Teach(&b_);
  EXPECT_EQ(store_.saves, 0);
  Pass(absl::Seconds(1));
  EXPECT_EQ(store_.saves, 1);
  Pass(5 * kLessonsInterval);
  EXPECT_EQ(store_.saves, 1);
  EXPECT_THAT(NamesOf(store_.kept), ElementsAre("b"));
  EXPECT_EQ(store_.kept["b"], EncodeReuseLessons(b_.lessons()));
}

TEST_F(StoredLessonsTest, TheEndKeepsWhatWasLearntLast) {
  Start();
  Teach(&a_);
  waits_.End();
  Pass(absl::ZeroDuration());
  EXPECT_EQ(scope_.running(), 0u);
  EXPECT_THAT(NamesOf(store_.kept), ElementsAre("a"));
}

TEST_F(StoredLessonsTest, AnEndWithoutNewsWritesNothing) {
  store_.kept["a"] = TaughtLessons();
  Start();
  waits_.End();
  Pass(absl::ZeroDuration());
  EXPECT_EQ(scope_.running(), 0u);
  EXPECT_EQ(store_.saves, 0);
}

TEST_F(StoredLessonsTest, EachOrderTakesItsOwnAndThoseOfNoneAreDropped) {
  store_.kept["a"] = TaughtLessons();
  store_.kept["gone"] = TaughtLessons();
  EXPECT_THAT(Load(), HasSubstr("goes on from what 1 of its orders learnt before"));
  EXPECT_EQ(a_.conclusions(), 1u);
  EXPECT_EQ(b_.conclusions(), 0u);
  scope_.Spawn(stored_.Run());
  Teach(&b_);
  Pass(kLessonsInterval);
  EXPECT_THAT(NamesOf(store_.kept), ElementsAre("a", "b"));
}

TEST_F(StoredLessonsTest, AStoreThatCannotBeReadIsOneLineAndAnewStart) {
  store_.broken = absl::DataLossError("/x/eviction_lessons is damaged");
  EXPECT_THAT(Load(), HasSubstr("what it learnt before: /x/eviction_lessons is damaged"));
  EXPECT_EQ(a_.conclusions(), 0u);
  store_.broken = absl::OkStatus();
  scope_.Spawn(stored_.Run());
  Teach(&a_);
  Pass(kLessonsInterval);
  EXPECT_THAT(NamesOf(store_.kept), ElementsAre("a"));
}

TEST_F(StoredLessonsTest, LessonsOfOneOrderThatAreRefusedCostTheOthersNothing) {
  store_.kept["a"] = TaughtLessons();
  store_.kept["b"] = "something else";
  EXPECT_THAT(Load(), HasSubstr("what it learnt before: b: "));
  EXPECT_EQ(a_.conclusions(), 1u);
  EXPECT_EQ(b_.conclusions(), 0u);
}

TEST_F(StoredLessonsTest, AFailedWriteIsToldOnceAndTriedAgain) {
  Start();
  store_.broken = absl::UnavailableError("cannot create /x/eviction_lessons");
  Teach(&a_);
  EXPECT_THAT(Pass(kLessonsInterval), HasSubstr("cannot create /x/eviction_lessons"));
  EXPECT_EQ(Pass(5 * kLessonsInterval), "");
  EXPECT_EQ(store_.saves, 6);
  store_.broken = absl::OkStatus();
  EXPECT_THAT(Pass(kLessonsInterval), HasSubstr("written to disk again"));
  EXPECT_THAT(NamesOf(store_.kept), ElementsAre("a"));
}

TEST(AgentLessonsTest, ARestartedAgentFollowsWhatTheOneBeforeItLearnt) {
  FakeLessonsStore store;
  {
    AgentRig rig({.lessons = &store});
    ASSERT_EQ(rig.Put(rig.session, 1, 8), 8u);
    for (int i = 0; i < 70; ++i) ASSERT_EQ(rig.Hits(rig.session, 1, 8), 8u);
    EXPECT_EQ(rig.agent->index().SummaryOf(Tier::kHost).following_lru, 1u) << "of two tenants";
    rig.agent->EndWaits();
    rig.Pass(absl::ZeroDuration());
  }
  EXPECT_EQ(store.saves, 1);
  AgentRig again({.lessons = &store});
  EXPECT_EQ(again.agent->index().SummaryOf(Tier::kHost).following_lru, 1u);
  AgentRig without{AgentRig::Shape{}};
  EXPECT_EQ(without.agent->index().SummaryOf(Tier::kHost).following_lru, 2u);
}

TEST(AgentLessonsTest, EachTenantEachPoolAndEachDiskHasItsName) {
  FakeLessonsStore store;
  AgentRig rig({.gpu_slots = 4, .second_gpu = true, .second_disk = true, .lessons = &store});
  const std::string disk_id = "disk/01" + std::string(30, '0');
  for (size_t domain = 0; domain < 2; ++domain) {
    Teach(rig.agent->index().HazardsOf(static_cast<DomainId>(domain)));
    Teach(rig.agent->gpus().at(domain).blocks().hazards());
  }
  rig.agent->disks().ForEachOrder([](const DiskId&, ReuseHazards* hazards) { Teach(hazards); });
  rig.Pass(kLessonsInterval);
  EXPECT_THAT(NamesOf(store.kept), ElementsAre(disk_id, HasSubstr("disk/02"), HasSubstr("gpu/"),
                                               HasSubstr("gpu/"), "host/acme", "host/default"));
}

}  // namespace
}  // namespace kvtier
