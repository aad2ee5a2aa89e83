// Tests the line of calls: turns, room, and calls that leave it.
#include "coordinator/call_line.h"

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kRoom = 6 * kBytesPerCall;  // Room for six calls without a request.

// Record is what became of the calls, in order.
class Record {
 public:
  void Ran(const std::string& name) {
    absl::MutexLock lock(&mu_);
    ran_.push_back(name);
  }
  void Refused(const std::string& name) {
    absl::MutexLock lock(&mu_);
    refused_.push_back(name);
  }
  std::vector<std::string> refused() {
    absl::MutexLock lock(&mu_);
    return refused_;
  }
  // Waits until so many calls ran, and returns their names.
  std::vector<std::string> AwaitRan(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto have_run = [&] { return ran_.size() >= count; };
    mu_.Await(absl::Condition(&have_run));
    return ran_;
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> ran_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> refused_ ABSL_GUARDED_BY(mu_);
};

class NamedCall final : public CallLine::Call {
 public:
  NamedCall(Record* record, std::string name) : record_(record), name_(std::move(name)) {}
  void Run() override { record_->Ran(name_); }
  void Refuse() override { record_->Refused(name_); }

 private:
  Record* const record_;
  const std::string name_;
};

// Blocker takes one of the places of calls that run, until `go` is notified.
class Blocker final : public CallLine::Call {
 public:
  explicit Blocker(absl::Notification* go) : go_(go) {}
  void Run() override {
    began_.Notify();
    go_->WaitForNotification();
    ended_.Notify();
  }
  void Refuse() override { ADD_FAILURE(); }
  void AwaitBegun() { began_.WaitForNotification(); }
  void AwaitEnd() { ended_.WaitForNotification(); }

 private:
  absl::Notification* const go_;
  absl::Notification began_;
  absl::Notification ended_;
};

class CallLineTest : public ::testing::Test {
 protected:
  CallLineTest() {
    for (size_t i = 0; i < kMaxCallsAtOnce; ++i) {
      blockers_.emplace_back(i == 0 ? &one_ : &go_);
      line_.Add("b", 0, &blockers_.back());
      blockers_.back().AwaitBegun();
    }
  }
  ~CallLineTest() override {
    if (!one_.HasBeenNotified()) one_.Notify();
    if (!go_.HasBeenNotified()) go_.Notify();
    for (Blocker& blocker : blockers_) blocker.AwaitEnd();
    (void)record_.AwaitRan(expected_);
  }
  // Adds a call that waits, named by its node and a number.
  CallLine::Call* Add(const std::string& node, const std::string& number, size_t bytes = 0) {
    calls_.emplace_back(&record_, node + number);
    line_.Add(node, bytes, &calls_.back());
    return &calls_.back();
  }

  Record record_;
  std::list<NamedCall> calls_;
  std::list<Blocker> blockers_;
  absl::Notification one_;  // Ends the first of them.
  absl::Notification go_;   // Ends the others.
  size_t expected_ = 0;     // Number of calls that run in the end.
  CallLine line_{kRoom};
};

TEST_F(CallLineTest, CallsWaitWhileAsManyRunAsMayAndThenAllRun) {
  for (const char* number : {"1", "2", "3"}) Add("x", number);
  EXPECT_EQ(line_.waiting(), 3u);
  go_.Notify();
  EXPECT_EQ(record_.AwaitRan(3).size(), 3u);
  EXPECT_THAT(record_.refused(), IsEmpty());
}

TEST_F(CallLineTest, ACallThatLeavesTheLineNeitherRunsNorIsRefused) {
  CallLine::Call* const leaves = Add("x", "1");
  Add("x", "2");
  EXPECT_TRUE(line_.Remove("x", leaves));
  EXPECT_FALSE(line_.Remove("x", leaves));
  EXPECT_FALSE(line_.Remove("y", leaves));
  EXPECT_EQ(line_.waiting(), 1u);
  go_.Notify();
  EXPECT_THAT(record_.AwaitRan(1), ElementsAre("x2"));
}

TEST_F(CallLineTest, TheRoomIsFilledAndNotOneCallMore) {
  for (const char* number : {"1", "2", "3", "4", "5", "6"}) Add("x", number);
  EXPECT_THAT(record_.refused(), IsEmpty());
  Add("x", "7");
  EXPECT_THAT(record_.refused(), ElementsAre("x7"));
  expected_ = 6;
}

TEST_F(CallLineTest, ALongRequestTakesMoreRoom) {
  Add("x", "1", 5 * kBytesPerCall / kBytesPerRequestByte);
  EXPECT_THAT(record_.refused(), IsEmpty());
  Add("x", "2");
  EXPECT_THAT(record_.refused(), ElementsAre("x2"));
  expected_ = 1;
}

TEST_F(CallLineTest, TheNodeWithMostWaitingGivesWayToOneWithLess) {
  for (const char* number : {"1", "2", "3", "4", "5", "6"}) Add("x", number);
  Add("y", "1");
  EXPECT_THAT(record_.refused(), ElementsAre("x6"));
  Add("y", "2");
  Add("y", "3");
  EXPECT_THAT(record_.refused(), ElementsAre("x6", "x5", "x4"));
  Add("y", "4");
  EXPECT_THAT(record_.refused(), ElementsAre("x6", "x5", "x4", "y4")) << "both have half now";
  expected_ = 6;
}

TEST_F(CallLineTest, NodesTakeTurns) {
  for (const char* number : {"1", "2", "3"}) Add("x", number);
  Add("y", "1");
  Add("z", "1");
  one_.Notify();  // One thread takes all of them, one after the other.
  EXPECT_THAT(record_.AwaitRan(5), ElementsAre("x1", "y1", "z1", "x2", "x3"));
}

}  // namespace
}  // namespace kvtier
