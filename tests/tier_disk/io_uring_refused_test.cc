// Tests OpenDisk in a process that may not make a ring, as under a container runtime's usual
// seccomp profile: it uses the pread pool instead, and logs a warning that says why.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/directory/open_disk.h"

namespace kvtier {
namespace {

constexpr int kNoFilter = 3;
constexpr int kWrong = 4;

// Makes io_uring_setup return EPERM, for every thread to come. It cannot be undone.
bool RefuseIoUring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Removes the child's own directory: the child starts from main() and draws another name than its
// parent.
[[noreturn]] void RemoveAndExit(const std::string& directory, int status) {
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  _exit(status);
}

// Runs in the child, and ends it.
void OpenWithoutIoUring(const std::string& directory, DiskIoKind io) {
  if (!RefuseIoUring()) _exit(kNoFilter);
  ThreadExecutor executor("child-executor");
  const DiskLayout layout{
      .directory = directory, .segment_bytes = uint64_t{1} << 20, .segment_count = 2};
  const auto disk = OpenDisk(&executor, layout, io);
  if (io == DiskIoKind::kUring) {
    std::fprintf(stderr, "%s\n", disk.status().ToString().c_str());
    RemoveAndExit(directory, absl::IsUnavailable(disk.status()) ? 0 : kWrong);
  }
  if (!disk.ok() || disk->io != DiskIoKind::kPread) RemoveAndExit(directory, kWrong);
  PageBuffer out = testing::DiskPayload(1, 8192);
  const std::array<std::span<const std::byte>, 1> from = {out.bytes()};
  PageBuffer in(8192);
  const std::array<std::span<std::byte>, 1> into = {in.bytes()};
  const DiskAddress at{.segment = SegmentId{1}, .offset = 4096};
  const bool moved =
      testing::RunTask(&executor, disk->disk->Write(IoClass::kOffload, at, from)).ok() &&
      testing::RunTask(&executor, disk->disk->Read(IoClass::kForeground, at, into)).ok() &&
      testing::HoldsDiskBlock(1, 8192, &in);
  RemoveAndExit(directory, moved ? 0 : kWrong);
}

class IoUringRefusedDeathTest : public ::testing::Test {
 protected:
  // Threads of other tests may run, so the child starts from main().
  IoUringRefusedDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  const std::string directory_ = testing::FreshDirectory("refused");
};

TEST_F(IoUringRefusedDeathTest, AutoFallsBackToPreadAndSaysSo) {
  EXPECT_EXIT(OpenWithoutIoUring(directory_, DiskIoKind::kAuto), ::testing::ExitedWithCode(0),
              "slower than it could be: io_uring: setup: Operation not permitted; using a pool of "
              ".* threads .a container needs a seccomp profile that allows io_uring");
}

TEST_F(IoUringRefusedDeathTest, AskedForItIsUnavailable) {
  EXPECT_EXIT(OpenWithoutIoUring(directory_, DiskIoKind::kUring), ::testing::ExitedWithCode(0),
              "UNAVAILABLE: io_uring: setup: Operation not permitted");
}

}  // namespace
}  // namespace kvtier
