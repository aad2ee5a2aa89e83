#include "bench/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/command_output.h"
#include "core/check.h"

namespace kvtier::bench {

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::string& program, const std::vector<std::string>& flags, const std::string& log) {
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / program;
  std::vector<std::string> words = {path};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::vector<char*> arguments = ArgumentsOf(&words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_CREAT | O_WRONLY | O_APPEND, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::WrapUnique(new ChildProcess(pid));
  return absl::UnavailableError(absl::StrCat(path.string(), ": ", strerror(error)));
}

ChildProcess::~ChildProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string MakeScratchDirectory() {
  std::string name = "/var/tmp/kvtier-bench-XXXXXX";
  KVT_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

}  // namespace kvtier::bench
