// These cases test the promises of Device about lanes and copies, for every form of it.
#ifndef KVTIER_TESTS_TESTING_DEVICE_CASES_H_
#define KVTIER_TESTS_TESTING_DEVICE_CASES_H_

#include <algorithm>
#include <vector>

#include "tests/testing/device_rig.h"

namespace kvtier::testing {

constexpr uint64_t kKiB = 1024;

// Returns runs of many sizes and alignments, scattered over the region and disjoint on both sides.
// Some of them are neighbours in host memory.
inline std::vector<CopySegment> ScatteredSegments(std::span<std::byte> host) {
  constexpr std::array<uint64_t, 12> kSizes = {1,    15,    16,        17,         255,     4096,
                                               4097, 65536, 64 * 1024, 200 * 1000, 1 << 20, 3};
  std::vector<CopySegment> segments;
  uint64_t from = 0;
  uint64_t at = 2 * kHandleBytes;
  for (size_t i = 0; i < 2 * kSizes.size(); ++i) {
    const uint64_t bytes = kSizes[i % kSizes.size()];
    at -= bytes + i % 3;
    // No run crosses the border of a pinned chunk.
    const uint64_t left = kTestPinChunk - from % kTestPinChunk;
    if (left < bytes) from += left;
    segments.push_back({at, host.data() + from, bytes});
    from += bytes + (i % 4 == 3 ? 40 : 0);
  }
  return segments;
}

TEST_P(DeviceTest, BytesComeBack) {
  const std::span<std::byte> in = host(0, 2 * kTestPinChunk);
  const std::span<std::byte> out = host(2 * kTestPinChunk, 2 * kTestPinChunk);
  const std::vector<CopySegment> there = ScatteredSegments(in);
  const std::vector<CopySegment> back = ScatteredSegments(out);
  FillWithNoise(1, in);
  std::ranges::fill(out, std::byte{0xa5});
  Onboard(there);
  Offload(back);
  std::vector<std::byte> expected(out.size(), std::byte{0xa5});
  for (const CopySegment& segment : there) {
    std::ranges::copy_n(segment.host, segment.bytes, expected.begin() + (segment.host - in.data()));
  }
  EXPECT_TRUE(std::ranges::equal(out, expected));
}

TEST_P(DeviceTest, ALongBatchComesBack) {
  std::vector<CopySegment> there;
  std::vector<CopySegment> back;
  for (uint64_t i = 0; i < kMaxCopySegments; ++i) {
    const uint64_t place = (i * 7 % kMaxCopySegments) * 4 * kKiB;
    there.push_back(Segment(place, host(i * 4 * kKiB, 4 * kKiB)));
    back.push_back(Segment(place, host(kArenaBytes / 2 + i * 4 * kKiB, 4 * kKiB)));
  }
  FillWithNoise(7, host(0, 4 << 20));
  Onboard(there);
  Offload(back);
  EXPECT_TRUE(std::ranges::equal(host(0, 4 << 20), host(kArenaBytes / 2, 4 << 20)));
}

TEST_P(DeviceTest, AnEmptyBatchEnds) {
  Onboard({});
  Offload({});
}

TEST_P(DeviceTest, OneLaneRunsInTheOrderOfTheCalls) {
  std::ranges::fill(host(0, kKiB), std::byte{1});
  std::ranges::fill(host(kKiB, kKiB), std::byte{2});
  const CopySegment one = Segment(0, host(0, kKiB));
  const CopySegment two = Segment(0, host(kKiB, kKiB));
  const Ticket a = Must(Submit(kIn, {&one, 1}));
  const Ticket b = Must(Submit(kIn, {&two, 1}));
  EXPECT_EQ(b, (Ticket{Lane::kOnboard, a.sequence + 1}));
  ASSERT_EQ(device_->Drain(Long()), absl::OkStatus());
  const std::vector<Completion> ended = PollAll();
  ASSERT_EQ(ended.size(), 2);
  EXPECT_EQ(ended[0].ticket, a);
  EXPECT_EQ(ended[1].ticket, b);
  EXPECT_EQ(Held(0, kKiB), std::vector(kKiB, std::byte{2}));
}

TEST_P(DeviceTest, ALaneWaitsUntilItsWordIsRaised) {
  SignalWord* const word = page_->word(3);
  for (const Lane lane : {Lane::kOnboard, Lane::kOffload, Lane::kCompute}) {
    word->store(0);
    const Ticket waiting = Must(device_->Await(lane, word, 5));
    EXPECT_EQ(device_->Drain(absl::Milliseconds(30)).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(PollAll().empty());
    device_->Raise(word, 4);
    EXPECT_EQ(device_->Drain(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
    device_->Raise(word, 6);
    ASSERT_EQ(device_->Drain(Long()), absl::OkStatus());
    const std::vector<Completion> ended = PollAll();
    ASSERT_EQ(ended.size(), 1);
    EXPECT_EQ(ended[0].ticket, waiting);
  }
}

TEST_P(DeviceTest, AReleasedWordLetsEverybodyGoOn) {
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  Must(device_->Await(Lane::kOffload, page_->word(1), uint64_t{1} << 40));
  page_->Release(0, 2);
  Finish();
  EXPECT_TRUE(device_->Reached(*page_->word(0), kReleased));
}

TEST_P(DeviceTest, ASignalIsSeenByTheHostAfterWhatWasAhead) {
  FillWithNoise(1, host(0, kKiB));
  const CopySegment there = Segment(0, host(0, kKiB));
  const CopySegment back = Segment(0, host(kKiB, kKiB));
  Onboard({&there, 1});
  Must(Submit(kOut, {&back, 1}));
  Must(device_->Signal(Lane::kOffload, page_->word(0), 9));
  EXPECT_TRUE(testing::Await(Long(), [&] {
    device_->Poll({});  // Makes the lanes go on; takes no completions.
    return device_->Reached(*page_->word(0), 9);
  }));
  EXPECT_FALSE(device_->Reached(*page_->word(0), 10));
  EXPECT_TRUE(std::ranges::equal(host(0, kKiB), host(kKiB, kKiB)));
  Finish();
}

TEST_P(DeviceTest, WhatAWordStandsForIsReadBehindIt) {
  FillWithNoise(1, host(0, 64 * kKiB));
  const CopySegment there = Segment(0, host(0, 64 * kKiB));
  const CopySegment back = Segment(0, host(kArenaBytes / 2, 64 * kKiB));
  Must(device_->Await(Lane::kOffload, page_->word(1), 1));
  Must(Submit(kOut, {&back, 1}));
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  Must(Submit(kIn, {&there, 1}));
  Must(device_->Signal(Lane::kOnboard, page_->word(1), 1));
  EXPECT_EQ(device_->Drain(absl::Milliseconds(20)).code(), absl::StatusCode::kDeadlineExceeded);
  FillWithNoise(2, host(0, 64 * kKiB));
  device_->Raise(page_->word(0), 1);
  Finish();
  EXPECT_TRUE(std::ranges::equal(host(0, 64 * kKiB), host(kArenaBytes / 2, 64 * kKiB)));
}

TEST_P(DeviceTest, ComputeOrdersTheLanesOnBothSides) {
  FillWithNoise(3, host(0, kKiB));
  const CopySegment there = Segment(0, host(0, kKiB));
  const CopySegment back = Segment(0, host(kKiB, kKiB));
  Must(device_->Await(Lane::kOffload, page_->word(1), 1));
  Must(Submit(kOut, {&back, 1}));
  Must(Submit(kIn, {&there, 1}));
  Must(device_->Signal(Lane::kOnboard, page_->word(0), 1));
  Must(device_->Await(Lane::kCompute, page_->word(0), 1));
  Must(device_->Signal(Lane::kCompute, page_->word(1), 1));
  Finish();
  EXPECT_TRUE(std::ranges::equal(host(0, kKiB), host(kKiB, kKiB)));
}

TEST_P(DeviceTest, AFullLaneRefusesUntilItsEndsArePolled) {
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  const CopySegment segment = Segment(0, host(0, kKiB));
  for (size_t i = 1; i < kMaxLaneDepth; ++i) Must(Submit(kIn, {&segment, 1}));
  EXPECT_EQ(Submit(kIn, {&segment, 1}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->Signal(Lane::kOnboard, page_->word(1), 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->Await(Lane::kOnboard, page_->word(1), 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  Must(device_->Signal(Lane::kOffload, page_->word(1), 1));
  device_->Raise(page_->word(0), 1);
  ASSERT_EQ(device_->Drain(Long()), absl::OkStatus());
  EXPECT_EQ(Submit(kIn, {&segment, 1}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(PollAll().size(), kMaxLaneDepth + 1);
  Onboard({&segment, 1});
}

// The copies are more than a stream queues. Submit() must not wait for room, because this thread
// raises the word only afterwards.
TEST_P(DeviceTest, LongBatchesBehindAWordHoldNobodyUp) {
  std::vector<CopySegment> segments;
  for (uint64_t i = 0; i < kMaxCopySegments; ++i) {
    // No two runs are neighbours in host memory.
    segments.push_back(Segment(i * kKiB, host(i * 2 * kKiB, kKiB)));
  }
  FillWithNoise(5, host(0, 2 << 20));
  Must(device_->Await(Lane::kOnboard, page_->word(0), 1));
  for (size_t i = 1; i < kMaxLaneDepth; ++i) Must(Submit(kIn, segments));
  device_->Raise(page_->word(0), 1);
  Finish();
  const std::vector<std::byte> held = Held(0, kMaxCopySegments * kKiB);
  for (uint64_t i = 0; i < kMaxCopySegments; ++i) {
    ASSERT_TRUE(
        std::ranges::equal(std::span(held).subspan(i * kKiB, kKiB), host(i * 2 * kKiB, kKiB)));
  }
}

TEST_P(DeviceTest, ABatchThatCannotBeIsInvalid) {
  const std::vector<std::byte> unpinned(kKiB);
  auto* const stray = const_cast<std::byte*>(unpinned.data());
  const std::vector<CopySegment> many(kMaxCopySegments + 1, Segment(0, host(0, 1)));
  const std::vector<std::vector<CopySegment>> batches = {
      many,
      {{0, host(0, 1).data(), 0}},
      {Segment(2 * kHandleBytes, host(0, 1))},
      {Segment(2 * kHandleBytes - 1, host(0, 2))},
      {Segment(~uint64_t{0}, host(0, 2))},
      {Segment(0, host(0, 1)), {kKiB, stray, kKiB}},
      {{0, arena_.bytes().data() + kArenaBytes - 1, 2}},
      {Segment(0, host(kTestPinChunk - 1, 2))}};
  for (const auto& batch : batches) {
    EXPECT_EQ(Submit(kIn, batch).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Submit(kOut, batch).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const CopySegment whole = Segment(0, host(0, kTestPinChunk));
  EXPECT_EQ(Must(Submit(kIn, {&whole, 1})), (Ticket{Lane::kOnboard, 1}));
  Finish();
}

// Neighbours in host memory that lie in two registrations are two runs to a copy engine.
TEST_P(DeviceTest, NeighboursOnBothSidesOfAChunkBorderAreCopied) {
  FillWithNoise(4, host(0, 2 * kTestPinChunk));
  const std::vector<CopySegment> segments = {Segment(0, host(kTestPinChunk - 4 * kKiB, 4 * kKiB)),
                                             Segment(4 * kKiB, host(kTestPinChunk, 4 * kKiB))};
  Onboard(segments);
  EXPECT_TRUE(std::ranges::equal(Held(0, 8 * kKiB), host(kTestPinChunk - 4 * kKiB, 8 * kKiB)));
}

TEST_P(DeviceTest, EveryEndIsPolledOnce) {
  EXPECT_EQ(device_->next_poll(), absl::InfiniteFuture());
  const CopySegment segment = Segment(0, host(0, kKiB));
  for (size_t i = 0; i < 5; ++i) Must(Submit(kIn, {&segment, 1}));
  ASSERT_EQ(device_->Drain(Long()), absl::OkStatus());
  std::vector<uint64_t> sequences;
  for (int polls = 0; polls < 4; ++polls) {
    const std::vector<Completion> ended = PollAll(2);
    for (const Completion& end : ended) {
      EXPECT_EQ(end.status, absl::OkStatus());
      EXPECT_GE(end.device, absl::ZeroDuration());
      sequences.push_back(end.ticket.sequence);
    }
  }
  EXPECT_EQ(sequences, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(device_->next_poll(), absl::InfiniteFuture());
  EXPECT_EQ(device_->state(), absl::OkStatus());
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_DEVICE_CASES_H_
