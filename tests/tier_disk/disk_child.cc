#include "tests/tier_disk/disk_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/tier_disk/disk_blocks.h"

namespace kvtier::testing {
namespace {

constexpr int kParentIsGone = 3;

}  // namespace

void TellParent(const DiskReport& report) {
  if (write(STDOUT_FILENO, &report, sizeof(report)) != sizeof(report)) _exit(kParentIsGone);
}

std::unique_ptr<DiskChild> DiskChild::Start(std::vector<std::string> words) {
  std::array<int, 2> pipe_ends = {};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return nullptr;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  std::string self = "/proc/self/exe";
  std::vector<char*> arguments = {self.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, self.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (failed == 0) return std::unique_ptr<DiskChild>(new DiskChild(child, pipe_ends[0]));
  close(pipe_ends[0]);
  return nullptr;
}

DiskChild::~DiskChild() {
  if (!ended_.has_value()) Kill();
  Wait();
  close(reports_);
}

std::optional<DiskReport> DiskChild::Next() {
  DiskReport report;
  if (read(reports_, &report, sizeof(report)) != sizeof(report)) return std::nullopt;
  return report;
}

void DiskChild::Kill() { kill(pid_, SIGKILL); }

int DiskChild::Wait() {
  if (ended_.has_value()) return *ended_;
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return *ended_;
}

void DurableBlocks::Take(const DiskReport& report) {
  switch (report.what) {
    case DiskReport::What::kDurable:
      numbers_.insert(report.number);
      return;
    case DiskReport::What::kDropped:
      numbers_.erase(report.number);
      return;
    case DiskReport::What::kForgotten:
      numbers_.clear();
      return;
    case DiskReport::What::kHits:
      return;
  }
}

Task<absl::Status> ReadBlocks(DiskTier* tier, const std::set<uint64_t>& numbers,
                              uint64_t (*length_of)(uint64_t)) {
  for (const uint64_t number : numbers) {
    const uint64_t length = length_of(number);
    PageBuffer slot(length);
    const absl::StatusOr<BlockMeta> got = co_await tier->Get(DiskKey(number), slot.bytes());
    if (!got.ok()) {
      co_return absl::Status(got.status().code(),
                             absl::StrCat("block ", number, ": ", got.status().message()));
    }
    if (!HoldsDiskBlock(number, length, &slot)) {
      co_return absl::InternalError(absl::StrCat("block ", number, ": WRONG BYTES served"));
    }
  }
  co_return absl::OkStatus();
}

}  // namespace kvtier::testing
