#include "tier_disk/io/io_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "tests/testing/test_seed.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

constexpr size_t kDepth = 8;

class IoQueueTest : public ::testing::Test {
 protected:
  // Makes a read that is not a neighbour of earlier ones.
  std::unique_ptr<DiskIo> Io(IoClass io_class, uint64_t bytes = 4096) {
    const std::array<std::span<std::byte>, 1> buffers = {memory_.bytes().first(bytes)};
    next_offset_ += 64 << 20;
    return std::make_unique<DiskIo>(io_class, DiskAddress{SegmentId{0}, next_offset_}, buffers);
  }
  void Push(IoClass io_class, uint64_t bytes = 4096) { queue_.Push(Io(io_class, bytes)); }
  // Starts the next batch of the queue and keeps it running; returns its class.
  IoClass Start() {
    running_.push_back(queue_.Pop());
    return running_.back()->io_class();
  }
  void EndAll() {
    for (const auto& batch : running_) queue_.Ended(*batch);
    running_.clear();
  }

  PageBuffer memory_{2 * kReadBytes};
  uint64_t next_offset_ = 0;
  IoQueue queue_{kDepth};
  std::vector<std::unique_ptr<IoBatch>> running_;
};

TEST_F(IoQueueTest, ClassesGoInTheirOrderWhateverCameFirst) {
  for (const IoClass io_class : {IoClass::kScrub, IoClass::kReclaim, IoClass::kOffload,
                                 IoClass::kPrefetch, IoClass::kForeground}) {
    Push(io_class);
  }
  EXPECT_EQ(Start(), IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kPrefetch);
  EXPECT_EQ(Start(), IoClass::kOffload);
  EXPECT_EQ(Start(), IoClass::kReclaim);
  EXPECT_EQ(Start(), IoClass::kScrub);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.Pop(), nullptr);
}

TEST_F(IoQueueTest, APrefetchMovedToTheForegroundGoesBehindWhatWaitsThere) {
  Push(IoClass::kPrefetch);
  Push(IoClass::kPrefetch);  // First of the two parts of a read for which a caller waits later.
  const uint64_t wanted = next_offset_;
  next_offset_ = wanted + 8192 - (64 << 20);
  Push(IoClass::kPrefetch);
  Push(IoClass::kForeground);
  queue_.MoveToForeground({SegmentId{1}, wanted},
                          16384);  // Another segment, which has none of these I/Os.
  queue_.MoveToForeground({SegmentId{0}, wanted}, 16384);
  queue_.MoveToForeground({SegmentId{0}, wanted}, 16384);  // Repeated: it is there already.
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Start(), IoClass::kForeground);
    offsets.push_back(running_.back()->offset());
  }
  EXPECT_EQ(offsets[1], wanted);
  EXPECT_EQ(offsets[2], wanted + 8192);
  EXPECT_EQ(Start(), IoClass::kPrefetch);
  EXPECT_TRUE(queue_.empty());
  EndAll();
  EXPECT_EQ(queue_.running(), 0);
}

TEST_F(IoQueueTest, ADeviceThatIsFullStartsNothing) {
  for (size_t i = 0; i <= kDepth; ++i) Push(IoClass::kForeground);
  for (size_t i = 0; i < kDepth; ++i) Start();
  EXPECT_FALSE(queue_.Ready());
  EXPECT_EQ(queue_.Pop(), nullptr);
  EndAll();
  EXPECT_TRUE(queue_.Ready());
}

TEST_F(IoQueueTest, BackgroundWorkInsideTheDeviceIsBounded) {
  for (int i = 0; i < 3; ++i) Push(IoClass::kOffload, kLargeBackgroundBytes - 4096);
  Push(IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kOffload);
  EXPECT_EQ(Start(), IoClass::kOffload) << "a page was left";
  EXPECT_FALSE(queue_.Ready());
  EndAll();
  EXPECT_EQ(Start(), IoClass::kOffload);
}

// Small writes that wait move together later; large ones gain nothing by waiting.
TEST_F(IoQueueTest, SmallBackgroundWorkWaitsSooner) {
  constexpr uint64_t kHalfBatch = kMaxBatchBytes / 2;
  for (uint64_t bytes = 0; bytes < kBackgroundBytes; bytes += kHalfBatch + 4096) {
    Push(IoClass::kOffload, kHalfBatch + 4096);
    Start();
  }
  Push(IoClass::kOffload, kHalfBatch);
  EXPECT_FALSE(queue_.Ready());
  Push(IoClass::kReclaim, kHalfBatch + 4096);
  EXPECT_FALSE(queue_.Ready()) << "no class passes an earlier one";
  EndAll();
  EXPECT_EQ(Start(), IoClass::kOffload);
  EXPECT_EQ(Start(), IoClass::kReclaim);
}

TEST_F(IoQueueTest, ReadsInsideTheDeviceAreBounded) {
  for (int i = 0; i < 2; ++i) Push(IoClass::kForeground, kReadBytes - 4096);
  Push(IoClass::kPrefetch);
  Push(IoClass::kOffload);
  EXPECT_EQ(Start(), IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kForeground) << "a page was left";
  EXPECT_FALSE(queue_.Ready()) << "nor may others pass what waits";
  EndAll();
  EXPECT_EQ(Start(), IoClass::kPrefetch);
  EXPECT_EQ(Start(), IoClass::kOffload);
}

TEST_F(IoQueueTest, OneReadMayRunHoweverLarge) {
  Push(IoClass::kForeground, 2 * kReadBytes);
  Push(IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kForeground);
  EXPECT_FALSE(queue_.Ready());
  EndAll();
  EXPECT_TRUE(queue_.Ready());
}

TEST_F(IoQueueTest, OneBackgroundIoMayRunHoweverLarge) {
  Push(IoClass::kReclaim, kBackgroundBytes);
  Push(IoClass::kReclaim);
  EXPECT_EQ(Start(), IoClass::kReclaim);
  EXPECT_FALSE(queue_.Ready());
  EndAll();
  EXPECT_EQ(Start(), IoClass::kReclaim);
}

TEST_F(IoQueueTest, ReadsPassWhileBackgroundWorkIsAtItsBound) {
  Push(IoClass::kOffload, kBackgroundBytes);
  Start();
  Push(IoClass::kOffload);
  Push(IoClass::kForeground);
  EXPECT_EQ(Start(), IoClass::kForeground);
}

TEST_F(IoQueueTest, BackgroundWorkGoesOnUnderReadsWithoutEnd) {
  Push(IoClass::kScrub);
  uint64_t reads = 0;
  while (true) {
    Push(IoClass::kForeground);
    if (Start() == IoClass::kScrub) break;
    ++reads;
    EndAll();
  }
  EXPECT_EQ(reads, kMaxOvertakes);
}

TEST_F(IoQueueTest, NeighboursStartTogether) {
  const auto at = [&](uint64_t offset) {
    const std::array<std::span<std::byte>, 1> buffers = {memory_.bytes().first(4096)};
    return std::make_unique<DiskIo>(IoClass::kForeground, DiskAddress{SegmentId{1}, offset},
                                    buffers);
  };
  for (const uint64_t offset : {0, 4096, 8192, 65536}) queue_.Push(at(offset));
  EXPECT_EQ(queue_.Pop()->bytes(), 3 * 4096);
  EXPECT_EQ(queue_.Pop()->bytes(), 4096);
}

TEST_F(IoQueueTest, WhatMustBeDoneAgainGoesFirst) {
  Push(IoClass::kForeground);
  queue_.PushAgain(std::make_unique<IoBatch>(Io(IoClass::kScrub)));
  EXPECT_EQ(Start(), IoClass::kScrub);
}

// Under random load everything that was pushed starts, the device never holds more than it can, and
// background bytes stay within their bound.
TEST_F(IoQueueTest, EverythingStartsOnce) {
  std::mt19937_64 random(testing::TestSeed());
  size_t pushed = 0;
  size_t started = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      Push(static_cast<IoClass>(random() % kIoClassCount), 4096 * (1 + random() % 256));
      ++pushed;
    } else if (random() % 2 == 0 && queue_.Ready()) {
      Start();
      ++started;
    } else if (!running_.empty()) {
      queue_.Ended(*running_.front());
      running_.erase(running_.begin());
    }
    uint64_t reads = 0;
    uint64_t background = 0;
    for (const auto& batch : running_) {
      (batch->io_class() >= IoClass::kOffload ? background : reads) += batch->bytes();
    }
    ASSERT_LT(reads, kReadBytes + (1 << 20));
    ASSERT_LT(background, kLargeBackgroundBytes + (1 << 20));
    ASSERT_LE(running_.size(), kDepth);
  }
  for (EndAll(); !queue_.empty(); EndAll()) {
    Start();
    ++started;
  }
  EXPECT_EQ(started, pushed);
}

}  // namespace
}  // namespace kvtier
