#include "tier_host/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/huge_pages.h"

namespace kvtier {
namespace {

constexpr uint64_t kBytes = uint64_t{64} << 10;
constexpr uid_t kAnotherUser = 65534;

std::unique_ptr<Arena> MakeArena(const std::string& name) {
  auto arena = Arena::Create(name, kBytes);
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

// Runs `body` in a forked process and returns its exit code.
template <typename Body>
int InAnotherProcess(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Reopens `fd` for writing through /proc, as another user, and returns errno; 0: it worked.
int ReopenForWritingAsAnotherUser(int fd) {
  return InAnotherProcess([fd] {
    if (setgid(kAnotherUser) != 0 || setuid(kAnotherUser) != 0) return 255;
    prctl(PR_SET_DUMPABLE, 1);  // Gives /proc/self back to this process.
    const int reopened = open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_RDWR);
    return reopened >= 0 ? 0 : errno;
  });
}

TEST(ArenaTest, StartsZeroedAndKeepsWhatIsWritten) {
  const auto arena = MakeArena("test");
  ASSERT_EQ(arena->bytes().size(), kBytes);
  EXPECT_EQ(arena->bytes()[kBytes - 1], std::byte{0});
  arena->bytes()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(arena->bytes()[kBytes - 1], std::byte{7});
}

TEST(ArenaTest, EveryPageIsResidentFromTheStart) {
  const auto arena = MakeArena("test");
  std::vector<unsigned char> resident(kBytes / 4096);
  ASSERT_EQ(mincore(arena->bytes().data(), kBytes, resident.data()), 0);
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 1);
}

TEST(ArenaTest, HugePagesAndTheRestBehindThemAreResident) {
  constexpr uint64_t kLarge = 2 * kHugePageBytes + 8192;
  const auto arena = Arena::Create("test", kLarge);
  ASSERT_TRUE(arena.ok()) << arena.status();
  std::byte* const start = (*arena)->bytes().data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % kHugePageBytes, 0);
  std::vector<unsigned char> resident(kLarge / 4096);
  ASSERT_EQ(mincore(start, kLarge, resident.data()), 0);
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 1);
}

TEST(ArenaTest, ReadOnlyDescriptorMapsForReadingOnly) {
  const auto arena = MakeArena("test");
  const int fd = arena->read_only_fd();
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);

  void* const view = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_NE(mprotect(view, kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(errno, EACCES);
  munmap(view, kBytes);
  EXPECT_LT(write(fd, "x", 1), 0);
  EXPECT_EQ(errno, EBADF);
}

// A memfd starts with mode 0777: without the arena's fchmod the holder of the
// read-only descriptor simply opened it again for writing. The plain memfd shows
// that this test can fail.
TEST(ArenaTest, AnotherUserCannotReopenItForWriting) {
  if (geteuid() != 0) GTEST_SKIP() << "becoming another user takes root";
  const int plain = memfd_create("plain", MFD_CLOEXEC);
  ASSERT_GE(plain, 0);
  EXPECT_EQ(ReopenForWritingAsAnotherUser(plain), 0);
  close(plain);

  const auto arena = MakeArena("test");
  EXPECT_EQ(ReopenForWritingAsAnotherUser(arena->read_only_fd()), EACCES);
}

TEST(ArenaTest, SealsRefuseEveryTruncationAndFurtherSeals) {
  const auto arena = MakeArena("test");
  const int fd = arena->read_write_fd();
  EXPECT_NE(ftruncate(fd, 4096), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(fd, 2 * kBytes), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  EXPECT_EQ(errno, EPERM);
}

// This holds for a process of the maker's own user, too, which may change the file's mode and open
// it again.
TEST(ArenaTest, NobodyElseMapsWhatItsMakerAloneWrites) {
  const auto arena = Arena::Create("test", kBytes, SealedMemory::Writers::kMakerOnly);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const int fd = (*arena)->read_write_fd();
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  void* const view = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, (*arena)->read_only_fd(), 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_NE(mprotect(view, kBytes, PROT_READ | PROT_WRITE), 0);
  // The maker's own mapping is unchanged.
  std::memset((*arena)->bytes().data(), 'k', kBytes);
  EXPECT_EQ(static_cast<const char*>(view)[kBytes - 1], 'k');
  munmap(view, kBytes);
}

TEST(ArenaTest, AnotherProcessSeesTheBytesThroughTheDescriptor) {
  const auto arena = MakeArena("test");
  const int fd = arena->read_only_fd();
  std::memset(arena->bytes().data(), 'k', kBytes);
  EXPECT_EQ(InAnotherProcess([fd] {
              const void* view = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
              if (view == MAP_FAILED) return 1;
              const char* const text = static_cast<const char*>(view);
              return text[0] == 'k' && text[kBytes - 1] == 'k' ? 0 : 2;
            }),
            0);
}

TEST(ArenaTest, AWorkerThatMayWriteIsSeenHere) {
  const auto arena = MakeArena("test");
  const int fd = arena->read_write_fd();
  EXPECT_EQ(InAnotherProcess([fd] {
              void* view = mmap(nullptr, kBytes, PROT_WRITE, MAP_SHARED, fd, 0);
              if (view == MAP_FAILED) return 1;
              std::memset(view, 'w', kBytes);
              return 0;
            }),
            0);
  EXPECT_EQ(arena->bytes()[kBytes / 2], std::byte{'w'});
}

TEST(ArenaTest, MemoryOutlivesTheArenaInAProcessThatMappedIt) {
  auto arena = MakeArena("test");
  std::memset(arena->bytes().data(), 'k', kBytes);
  const void* view = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, arena->read_only_fd(), 0);
  ASSERT_NE(view, MAP_FAILED);
  arena.reset();
  EXPECT_EQ(static_cast<const char*>(view)[kBytes - 1], 'k');
  munmap(const_cast<void*>(view), kBytes);
}

TEST(ArenaTest, DescriptorsCloseOnExec) {
  const auto arena = MakeArena("test");
  EXPECT_EQ(fcntl(arena->read_write_fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fcntl(arena->read_only_fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(ArenaTest, MemoryComesAndGoesInPartsAndComesBackAsZeros) {
  constexpr uint64_t kPart = kBytes / 4;
  const auto arena = Arena::Reserve("test", kBytes);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ((*arena)->held_bytes(), 0u);
  ASSERT_TRUE((*arena)->Fill(kPart, kPart).ok());
  EXPECT_EQ((*arena)->held_bytes(), kPart);
  std::memset((*arena)->bytes().data() + kPart, 'k', kPart);
  ASSERT_TRUE((*arena)->Fill(2 * kPart, kPart).ok());
  EXPECT_EQ((*arena)->bytes()[kPart], std::byte{'k'}) << "another part was filled";
  (*arena)->Empty(kPart, kPart);
  EXPECT_EQ((*arena)->held_bytes(), kPart);
  ASSERT_TRUE((*arena)->Fill(kPart, kPart).ok());
  EXPECT_EQ((*arena)->bytes()[kPart], std::byte{0});
}

// A worker that reads or writes past its slots makes the arena hold memory there.
TEST(ArenaTest, MemoryThatAnotherProcessTouchesIsSeenAndCanBeGivenBack) {
  const auto arena = Arena::Reserve("test", kBytes);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const int fd = (*arena)->read_only_fd();
  ASSERT_EQ(InAnotherProcess([fd] {
              void* const view = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
              if (view == MAP_FAILED) return 1;
              return static_cast<const volatile char*>(view)[kBytes / 2] == 0 ? 0 : 2;
            }),
            0);
  EXPECT_GT((*arena)->held_bytes(), 0u);
  (*arena)->Empty(0, kBytes);
  EXPECT_EQ((*arena)->held_bytes(), 0u);
}

TEST(ArenaTest, MemoryThatCannotBeHadIsResourceExhausted) {
  const auto arena = Arena::Create("huge", uint64_t{1} << 60);
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(arena.status().message()), ::testing::HasSubstr("\"huge\""));
}

TEST(ArenaDeathTest, BytesThatAreNoWholePagesAbort) {
  EXPECT_DEATH((void)Arena::Create("test", 4097), "CHECK failed");
  EXPECT_DEATH((void)Arena::Create("test", 0), "CHECK failed");
}

}  // namespace
}  // namespace kvtier
