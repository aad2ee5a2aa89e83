// Tests what a fork leaves of a client in the child, without a client: descriptors, memory, and who
// learns of the fork. tests/integration/forked_worker_test.cc tests the whole.
#include "client/fork_guard.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "absl/functional/function_ref.h"
#include "client/packet_socket.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr size_t kPage = 4096;

// Returns the result of `child` in a forked child.
bool InChild(absl::FunctionRef<bool()> child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child() ? 0 : 1);
  int status = -1;
  KVT_CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkGuardTest, AChildOfAClientsUserKnowsItAndSoDoItsChildren) {
  EXPECT_TRUE(InChild([] { return !InForkedChild(); }));
  {
    const ClientUse use;
    EXPECT_FALSE(InForkedChild());
    EXPECT_TRUE(InChild([] { return InForkedChild() && InChild([] { return InForkedChild(); }); }));
  }
  EXPECT_TRUE(InChild([] { return !InForkedChild(); }));
}

TEST(ForkGuardTest, ADescriptorIsInertInTheChildAndItsNumberIsKept) {
  const FileDescriptor event(eventfd(0, EFD_NONBLOCK));
  EXPECT_TRUE(InChild([&] {
    const uint64_t one = 1;
    uint64_t count = 0;
    // The child writes to another file, and no other file has this number.
    const bool open = write(event.get(), &one, sizeof(one)) == sizeof(one);
    return open && dup(STDERR_FILENO) != event.get() &&
           read(event.get(), &count, sizeof(count)) == sizeof(count);
  }));
  uint64_t count = 0;
  EXPECT_EQ(read(event.get(), &count, sizeof(count)), -1) << "the child wrote to the parent's";
}

TEST(ForkGuardTest, ADescriptorThatWasClosedIsNobodysBusiness) {
  const int number = FileDescriptor(eventfd(0, 0)).get();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_TRUE(pipe_ends[0] == number || pipe_ends[1] == number);
  EXPECT_TRUE(InChild([&] { return write(pipe_ends[1], "x", 1) == 1; }));
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(ForkGuardTest, SharedMemoryIsPrivateZerosInTheChild) {
  void* const shared =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const bytes = static_cast<char*>(shared);
  const std::span<std::byte> memory(static_cast<std::byte*>(shared), kPage);
  std::memset(bytes, 7, kPage);
  KeepMemoryFromChildren(memory);
  EXPECT_TRUE(InChild([&] {
    const bool zeros = bytes[0] == 0 && bytes[kPage - 1] == 0;
    std::memset(bytes, 9, kPage);
    return zeros;
  }));
  EXPECT_EQ(bytes[0], 7);
  ForgetKeptMemory(memory);
  EXPECT_TRUE(InChild([&] { return bytes[0] == 7; }));
  munmap(shared, kPage);
}

}  // namespace
}  // namespace kvtier
