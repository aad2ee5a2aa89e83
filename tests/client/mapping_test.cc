#include "client/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>

#include "client/packet_socket.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

constexpr uint64_t kBytes = 8192;

FileDescriptor Memory(int seals) {
  FileDescriptor fd(memfd_create("mapping_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), kBytes), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(MappingTest, WritesShowInAReadersMapping) {
  const FileDescriptor fd = Memory(F_SEAL_SHRINK);
  const auto writer = Mapping::Map(fd.get(), kBytes, Mapping::Access::kReadWrite);
  const auto reader = Mapping::Map(fd.get(), kBytes, Mapping::Access::kRead);
  ASSERT_TRUE(writer.ok() && reader.ok());
  (*writer)->Write(4096, 1)->front() = std::byte{42};
  EXPECT_EQ((*reader)->Read(4096, 1)->front(), std::byte{42});
}

TEST(MappingTest, RefusesMemoryThatCouldShrinkUnderIt) {
  const FileDescriptor fd = Memory(0);
  EXPECT_EQ(Mapping::Map(fd.get(), kBytes, Mapping::Access::kRead).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(MappingTest, RefusesMoreBytesThanTheFileHas) {
  const FileDescriptor fd = Memory(F_SEAL_SHRINK);
  for (const uint64_t bytes : {uint64_t{0}, kBytes + 1, std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(Mapping::Map(fd.get(), bytes, Mapping::Access::kRead).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(MappingTest, HandlesLieOneBehindTheOtherInARangeForMore) {
  const FileDescriptor first = Memory(F_SEAL_SHRINK);
  const FileDescriptor second = Memory(F_SEAL_SHRINK);
  const int handles[] = {first.get(), second.get()};
  const auto pool = Mapping::MapHandles(handles, kBytes, 5);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->size(), 2 * kBytes);
  EXPECT_FALSE((*pool)->Write(2 * kBytes, 1)) << "not there yet";
  (*pool)->Write(kBytes, 1)->front() = std::byte{42};
  const auto alone = *Mapping::Map(second.get(), kBytes, Mapping::Access::kRead);
  EXPECT_EQ(alone->Read(0, 1)->front(), std::byte{42});
}

TEST(MappingTest, HandlesComeAndGoAtTheirAddresses) {
  const FileDescriptor first = Memory(F_SEAL_SHRINK);
  const FileDescriptor second = Memory(F_SEAL_SHRINK);
  const FileDescriptor third = Memory(F_SEAL_SHRINK);
  const int handles[] = {first.get()};
  const auto pool = *Mapping::MapHandles(handles, kBytes, 3);
  ASSERT_EQ(pool->PutHandle(1, second.get(), kBytes), absl::OkStatus());
  EXPECT_EQ(pool->size(), 2 * kBytes);
  const auto block = *pool->Write(kBytes, 16);
  block.front() = std::byte{42};
  pool->CutHandles(1, kBytes);
  EXPECT_EQ(pool->size(), kBytes);
  EXPECT_FALSE(pool->Read(kBytes, 1));
  EXPECT_EQ(block.front(), std::byte{0}) << "a late reader does not fault";
  block.front() = std::byte{43};
  EXPECT_EQ((*Mapping::Map(second.get(), kBytes, Mapping::Access::kRead))->Read(0, 1)->front(),
            std::byte{42})
      << "nor does a late writer reach what was cut";
  ASSERT_EQ(pool->PutHandle(1, third.get(), kBytes), absl::OkStatus());
  EXPECT_EQ(block.data(), pool->Write(kBytes, 16)->data());
  EXPECT_EQ(block.front(), std::byte{0});
  ASSERT_EQ(pool->PutHandle(1, second.get(), kBytes), absl::OkStatus()) << "in its place";
  EXPECT_EQ(block.front(), std::byte{42});
}

TEST(MappingTest, AHandleThatCannotBeMappedChangesNothing) {
  const FileDescriptor first = Memory(F_SEAL_SHRINK);
  const FileDescriptor open = Memory(0);
  const int handles[] = {first.get()};
  const auto pool = *Mapping::MapHandles(handles, kBytes, 2);
  EXPECT_EQ(pool->PutHandle(1, open.get(), kBytes).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(pool->size(), kBytes);
}

TEST(MappingTest, RefusesHandlesThatCouldShrinkOrAreTooMany) {
  const FileDescriptor sealed = Memory(F_SEAL_SHRINK);
  const FileDescriptor open = Memory(0);
  const int handles[] = {sealed.get(), open.get()};
  EXPECT_TRUE(absl::IsFailedPrecondition(Mapping::MapHandles(handles, kBytes, 2).status()));
  const int alone[] = {sealed.get()};
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Mapping::MapHandles(alone, kBytes, std::numeric_limits<size_t>::max()).status()));
}

TEST(MappingTest, KnowsWhatLiesInsideIt) {
  const FileDescriptor fd = Memory(F_SEAL_SHRINK);
  const auto mapping = *Mapping::Map(fd.get(), kBytes, Mapping::Access::kRead);
  EXPECT_TRUE(mapping->Read(0, kBytes));
  EXPECT_TRUE(mapping->Read(kBytes, 0));
  EXPECT_FALSE(mapping->Read(0, kBytes + 1));
  EXPECT_FALSE(mapping->Read(kBytes, 1));
  EXPECT_FALSE(mapping->Read(1, std::numeric_limits<uint64_t>::max()));
  EXPECT_FALSE(mapping->Read(std::numeric_limits<uint64_t>::max(), 2));
}

}  // namespace
}  // namespace kvtier
