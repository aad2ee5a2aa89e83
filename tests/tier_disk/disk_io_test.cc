// Tests what follows a system call, because real kernels rarely give short results.
#include "tier_disk/io/disk_io.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <optional>

#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

class IoBatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<DiskIo> Io(uint64_t offset, std::optional<absl::Status>* ended,
                             IoClass io_class = IoClass::kForeground) {
    const std::array<std::span<std::byte>, 2> buffers = {first_.bytes(), second_.bytes()};
    auto io = std::make_unique<DiskIo>(io_class, DiskAddress{SegmentId{3}, offset}, buffers);
    io->done = [ended](const absl::Status& status) { *ended = status; };
    return io;
  }
  static constexpr uint64_t kBytes = 4096 + 8192;
  PageBuffer first_{4096};
  PageBuffer second_{8192};
  std::optional<absl::Status> ended_;
  std::optional<absl::Status> next_ended_;
};

TEST_F(IoBatchTest, AShortTransferGoesOnWhereItStopped) {
  IoBatch batch(Io(4096, &ended_));
  EXPECT_EQ(batch.Transferred(512), IoBatch::Next::kAgain);
  EXPECT_EQ(batch.offset(), 4608);
  EXPECT_EQ(batch.buffers()[0].iov_base, first_.bytes().data() + 512);
  EXPECT_EQ(batch.buffers()[0].iov_len, 3584);
  EXPECT_EQ(batch.Transferred(3584 + 4096), IoBatch::Next::kAgain);
  ASSERT_EQ(batch.buffers().size(), 1);
  EXPECT_EQ(batch.buffers()[0].iov_base, second_.bytes().data() + 4096);
  EXPECT_EQ(batch.Transferred(4096), IoBatch::Next::kFinished);
  EXPECT_TRUE(batch.Finish().empty());
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(IoBatchTest, InterruptedCallsAreRepeatedAndErrorsAreNot) {
  IoBatch batch(Io(0, &ended_));
  EXPECT_EQ(batch.Transferred(-EINTR), IoBatch::Next::kAgain);
  EXPECT_EQ(batch.Transferred(-EAGAIN), IoBatch::Next::kAgain);
  EXPECT_EQ(batch.Transferred(-EIO), IoBatch::Next::kFinished);
  EXPECT_TRUE(batch.Finish().empty());
  EXPECT_TRUE(absl::IsUnavailable(*ended_));
}

TEST_F(IoBatchTest, NothingTransferredIsTheEndOfTheFile) {
  IoBatch batch(Io(0, &ended_));
  EXPECT_EQ(batch.Transferred(0), IoBatch::Next::kFinished);
  batch.Finish();
  EXPECT_TRUE(absl::IsUnavailable(*ended_));
}

TEST_F(IoBatchTest, AFullFileSystemIsResourceExhausted) {
  IoBatch batch(Io(0, &ended_));
  EXPECT_EQ(batch.Transferred(-ENOSPC), IoBatch::Next::kFinished);
  batch.Finish();
  EXPECT_TRUE(absl::IsResourceExhausted(*ended_));
}

TEST_F(IoBatchTest, NeighboursMoveTogetherAndEndTogether) {
  IoBatch batch(Io(0, &ended_));
  const auto next = Io(kBytes, &next_ended_);
  ASSERT_TRUE(batch.Takes(*next));
  batch.Add(Io(kBytes, &next_ended_));
  EXPECT_EQ(batch.buffers().size(), 4);
  EXPECT_EQ(batch.Transferred(2 * kBytes), IoBatch::Next::kFinished);
  EXPECT_TRUE(batch.Finish().empty());
  EXPECT_EQ(ended_, absl::OkStatus());
  EXPECT_EQ(next_ended_, absl::OkStatus());
}

TEST_F(IoBatchTest, OnlyTheVeryNextOfTheSameKindIsANeighbour) {
  const IoBatch batch(Io(0, &ended_));
  EXPECT_FALSE(batch.Takes(*Io(kBytes + 4096, &next_ended_)));
  EXPECT_FALSE(batch.Takes(*Io(kBytes, &next_ended_, IoClass::kPrefetch)));
  const std::array<std::span<const std::byte>, 1> bytes = {first_.bytes()};
  EXPECT_FALSE(batch.Takes(DiskIo(IoClass::kForeground, DiskAddress{SegmentId{3}, kBytes}, bytes)));
  const std::array<std::span<std::byte>, 1> into = {first_.bytes()};
  EXPECT_FALSE(batch.Takes(DiskIo(IoClass::kForeground, DiskAddress{SegmentId{4}, kBytes}, into)));
}

TEST_F(IoBatchTest, ABatchIsBounded) {
  IoBatch batch(Io(0, &ended_));
  uint64_t members = 1;
  while (batch.Takes(*Io(members * kBytes, &ended_))) {
    batch.Add(Io(members++ * kBytes, &ended_));
  }
  EXPECT_EQ(members, kMaxBatchBuffers / 2);
  EXPECT_LE(batch.bytes(), kMaxBatchBytes);
}

TEST_F(IoBatchTest, ABatchThatFailedComesBackMemberByMember) {
  IoBatch batch(Io(0, &ended_));
  batch.Add(Io(kBytes, &next_ended_));
  EXPECT_EQ(batch.Transferred(-EIO), IoBatch::Next::kFinished);
  const std::vector<std::unique_ptr<IoBatch>> alone = batch.Finish();
  EXPECT_FALSE(ended_.has_value());
  ASSERT_EQ(alone.size(), 2);
  EXPECT_EQ(alone[1]->offset(), kBytes);
  EXPECT_EQ(alone[0]->Transferred(kBytes), IoBatch::Next::kFinished);
  alone[0]->Finish();
  EXPECT_EQ(alone[1]->Transferred(-EIO), IoBatch::Next::kFinished);
  alone[1]->Finish();
  EXPECT_EQ(ended_, absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(*next_ended_));
}

TEST_F(IoBatchTest, ASplitIoEndsWithItsLastPartAndItsFirstFailure) {
  const std::vector<std::unique_ptr<DiskIo>> parts = DiskIo::Split(Io(4096, &ended_));
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[1]->offset(), 8192);
  EXPECT_EQ(parts[1]->bytes(), 8192);
  parts[1]->done(absl::UnavailableError("EIO"));
  EXPECT_FALSE(ended_.has_value());
  parts[0]->done(absl::OkStatus());
  EXPECT_EQ(ended_, absl::UnavailableError("EIO"));
}

}  // namespace
}  // namespace kvtier
