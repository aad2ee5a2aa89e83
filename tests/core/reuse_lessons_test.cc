#include "core/reuse_lessons.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "core/reuse_hazards.h"
#include "core/summed_bytes.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

const ReuseClass kNew = ReuseState{}.Class();
const ReuseClass kUsed = ReuseState{.uses = 1, .gap = 1}.Class();

// Hazards of two classes, after three conclusions.
ReuseHazards Taught() {
  ReuseHazards hazards;
  for (int conclusion = 0; conclusion < 3; ++conclusion) {
    for (int i = 0; i < 512; ++i) {
      hazards.Learn(kUsed, 3 + i % 40, i % 9 != 0);
      hazards.Learn(kNew, 100 + i, i % 2 == 0);
    }
    hazards.Conclude({});
  }
  return hazards;
}

// Writes the fields as an encoder does; the tests spoil one at a time.
struct Fields {
  uint64_t magic = 0x657375657274766b;
  uint32_t version = kReuseLessonsVersion;
  uint16_t families = kReuseFamilies;
  uint16_t gaps = kReuseGaps;
  uint16_t finishes = kReuseFinishes;
  uint16_t buckets = kReuseBuckets;
  uint32_t last_begin = 46341;
  uint64_t conclusions = 3;
  uint32_t classes = 1;
  uint16_t first = 0;
  float seconds = 5;
  std::string behind;
};

std::string Written(const Fields& fields) {
  SummedWriter out;
  out.Put(fields.magic);
  out.Put(fields.version);
  out.Put(fields.families);
  out.Put(fields.gaps);
  out.Put(fields.finishes);
  out.Put(fields.buckets);
  out.Put(fields.last_begin);
  out.Put(fields.conclusions);
  out.Put(fields.classes);
  for (uint32_t i = 0; i < fields.classes; ++i) {
    out.Put(fields.first);  // The same class twice, if there are two.
    out.Put(uint64_t{0});
    out.Put(uint64_t{1});
    out.Put(std::bit_cast<uint32_t>(fields.seconds));
  }
  out.PutBytes(fields.behind);
  return std::move(out).End();
}

absl::StatusCode Refusal(const std::string& bytes) {
  return DecodeReuseLessons(bytes).status().code();
}

TEST(ReuseLessonsTest, WhatIsTakenIsWorthTheSameInEveryClassAtEveryAge) {
  const ReuseHazards taught = Taught();
  // Evidence fades after each conclusion. `again` has the worths of the faded evidence.
  ReuseHazards again;
  again.Take(taught.lessons());
  ReuseHazards taken;
  absl::StatusOr<ReuseLessons> lessons = DecodeReuseLessons(EncodeReuseLessons(taught.lessons()));
  ASSERT_TRUE(lessons.ok()) << lessons.status();
  EXPECT_EQ(*lessons, taught.lessons());
  taken.Take(*std::move(lessons));
  EXPECT_EQ(taken.conclusions(), 3u);
  for (size_t of = 0; of < kReuseClasses; ++of) {
    for (size_t bucket = 0; bucket < kReuseBuckets; ++bucket) {
      const double before = taught.Worth(ReuseClass(of), bucket);
      EXPECT_EQ(taken.Worth(ReuseClass(of), bucket), again.Worth(ReuseClass(of), bucket));
      EXPECT_NEAR(taken.Worth(ReuseClass(of), bucket) / before, 1, 0.02) << of << " " << bucket;
    }
  }
}

TEST(ReuseLessonsTest, ClassesThatNothingIsKnownOfTakeNoRoom) {
  EXPECT_LT(EncodeReuseLessons(ReuseHazards().lessons()).size(), 64u);
  EXPECT_LT(EncodeReuseLessons(Taught().lessons()).size(), 1024u);
}

TEST(ReuseLessonsTest, EveryTruncationAndEveryFlippedByteIsRefused) {
  const std::string bytes = EncodeReuseLessons(Taught().lessons());
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(Refusal(bytes.substr(0, i)), absl::StatusCode::kDataLoss) << i;
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(~flipped[i]);
    EXPECT_EQ(Refusal(flipped), absl::StatusCode::kDataLoss) << i;
  }
  EXPECT_EQ(Refusal(bytes + '\0'), absl::StatusCode::kDataLoss);
}

TEST(ReuseLessonsTest, LessonsOfAnotherVersionOrOfOtherClassesAreRefused) {
  ASSERT_TRUE(DecodeReuseLessons(Written({})).ok()) << "the others are refused for their one field";
  for (const Fields& fields :
       {Fields{.version = kReuseLessonsVersion + 1}, Fields{.families = kReuseFamilies + 1},
        Fields{.gaps = kReuseGaps + 1}, Fields{.finishes = kReuseFinishes - 1},
        Fields{.buckets = kReuseBuckets / 2}, Fields{.last_begin = 46340}}) {
    EXPECT_EQ(Refusal(Written(fields)), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ReuseLessonsTest, WhatCannotHaveBeenLearntIsRefusedWhateverItsSum) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float seconds : {kNan, kInfinity, -1.0F, 0.0F, 1e30F}) {
    EXPECT_EQ(Refusal(Written({.seconds = seconds})), absl::StatusCode::kDataLoss) << seconds;
  }
  for (const Fields& fields :
       {Fields{.magic = 1}, Fields{.classes = 2}, Fields{.classes = kReuseClasses + 1},
        Fields{.first = kReuseClasses}, Fields{.behind = "x"}}) {
    EXPECT_EQ(Refusal(Written(fields)), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(Refusal(""), absl::StatusCode::kDataLoss);
}

// An order that learnt, one that took over what it learnt, and one that knows nothing.
TEST(ReuseLessonsTest, AnOrderThatTookLessonsChoosesAndRefusesAsItsTeacherDoes) {
  constexpr uint64_t kTaught = 1000;
  NumberedOrder teacher(EvictionPolicy::kLearnt);
  teacher.Insert(kTaught);
  for (int lesson = 0; lesson < 2100; ++lesson) {
    teacher.Wait(absl::Seconds(100));
    teacher.Touch(kTaught);
  }
  NumberedOrder follower(EvictionPolicy::kLearnt);
  NumberedOrder unlearnt(EvictionPolicy::kLearnt);
  follower->hazards()->Take(*DecodeReuseLessons(EncodeReuseLessons(teacher->hazards()->lessons())));
  EXPECT_EQ(follower->followed(), EvictionPolicy::kLearnt) << "without a lesson of its own";
  EXPECT_EQ(follower->Summary().score.asked, 0) << "the referee begins again";
  for (NumberedOrder* const order : {&teacher, &follower, &unlearnt}) {
    for (uint64_t number = 1; number <= 12; ++number) {
      order->Insert(number, number % 4 == 0 ? std::optional(number - 1) : std::nullopt);
      order->Wait(absl::Seconds(3));
      for (uint64_t used = number / 2; used > 0; used /= 2) order->Touch(used);
    }
  }
  teacher.Erase(kTaught);
  const Numbers gone = teacher.EraseDownTo(8);
  EXPECT_EQ(follower.EraseDownTo(8), gone);
  EXPECT_NE(unlearnt.EraseDownTo(8), gone);
  for (NumberedOrder* const order : {&teacher, &follower}) {
    auto newcomer = NumberedOrder::Comes(99);
    newcomer.hint.will_not_return = true;
    EXPECT_FALSE((*order)->Admits(newcomer));
  }
  EXPECT_EQ(follower.EraseDownTo(0), teacher.EraseDownTo(0));
}

TEST(ReuseLessonsTest, AnOrderThatDoesNotLearnHasNoLessons) {
  for (const auto policy :
       {EvictionPolicy::kLru, EvictionPolicy::kFifo, EvictionPolicy::kPriority}) {
    EXPECT_EQ(NumberedOrder(policy)->hazards(), nullptr);
  }
}

}  // namespace
}  // namespace kvtier
