#include "tests/testing/own_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/check.h"

namespace kvtier::testing {

pid_t StartOwnProgram(const std::vector<std::string>& arguments, int socket) {
  std::string self = "/proc/self/exe";
  std::vector<std::string> copies = arguments;
  std::vector<char*> words = {self.data()};
  for (std::string& argument : copies) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  KVT_CHECK(posix_spawn_file_actions_init(&actions) == 0);
  KVT_CHECK(posix_spawn_file_actions_adddup2(&actions, socket, kInheritedSocket) == 0);
  pid_t child = 0;
  KVT_CHECK(posix_spawn(&child, self.c_str(), &actions, nullptr, words.data(), ::environ) == 0);
  KVT_CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
  return child;
}

int WaitForOwnProgram(pid_t child) {
  int status = 0;
  KVT_CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace kvtier::testing
