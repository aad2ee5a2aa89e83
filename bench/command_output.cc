#include "bench/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace kvtier::bench {

std::vector<char*> ArgumentsOf(std::vector<std::string>* words) {
  std::vector<char*> arguments;
  arguments.reserve(words->size() + 1);
  for (std::string& word : *words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

namespace {

// Reads the pipe until no process holds its other end. Returns false if one still did at
// `deadline`.
bool ReadAll(int pipe, absl::Time deadline, std::string* output) {
  std::array<char, 4096> part;
  while (true) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    pollfd readable = {.fd = pipe, .events = POLLIN};
    // Waits in pieces, because an int holds no more than 24 days.
    const absl::Duration piece = std::min(left, absl::Hours(1));
    const int ready = poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(piece)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && left > absl::ZeroDuration()) continue;
    if (ready == 0) return false;
    const ssize_t got = read(pipe, part.data(), part.size());
    if (got <= 0) return true;
    output->append(part.data(), static_cast<size_t>(got));
  }
}

}  // namespace

absl::StatusOr<std::string> OutputOf(std::vector<std::string> words, absl::Duration timeout) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::UnavailableError(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments = ArgumentsOf(&words);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  const bool ended = error != 0 || ReadAll(ends[0], absl::Now() + timeout, &output);
  close(ends[0]);
  if (error == ENOENT) {
    return absl::NotFoundError(
        absl::StrCat(words[0], " is not installed (scripts/packages names it)"));
  }
  if (error != 0) return absl::UnavailableError(absl::StrCat(words[0], ": ", std::strerror(error)));
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) {
    return absl::DeadlineExceededError(
        absl::StrCat(words[0], " had not ended after ", absl::FormatDuration(timeout)));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::UnavailableError(absl::StrCat(words[0], " failed: ", output.substr(0, 400)));
  }
  return output;
}

namespace {

// Returns where the object called `name` begins; npos: there is none. A string value of that text
// does not count.
size_t FindObject(absl::string_view json, absl::string_view name) {
  const std::string quoted = absl::StrCat("\"", name, "\"");
  size_t at = 0;
  while ((at = json.find(quoted, at)) != json.npos) {
    at += quoted.size();
    const size_t colon = json.find_first_not_of(" \t\n", at);
    if (colon == json.npos || json[colon] != ':') continue;
    const size_t brace = json.find_first_not_of(" \t\n", colon + 1);
    if (brace != json.npos && json[brace] == '{') return brace;
  }
  return json.npos;
}

}  // namespace

absl::StatusOr<double> JsonNumber(absl::string_view json, absl::string_view object,
                                  absl::string_view field) {
  const size_t inside = FindObject(json, object);
  const std::string quoted = absl::StrCat("\"", field, "\"");
  const size_t name = inside == json.npos ? json.npos : json.find(quoted, inside);
  if (name == json.npos) {
    return absl::UnavailableError(absl::StrCat("no ", field, " of ", object, " in the output"));
  }
  absl::string_view rest = json.substr(name + quoted.size());
  rest.remove_prefix(std::min(rest.size(), rest.find_first_of("0123456789")));
  double value = 0;
  if (!absl::SimpleAtod(rest.substr(0, rest.find_first_not_of("0123456789.eE+-")), &value)) {
    return absl::UnavailableError(absl::StrCat(field, " of ", object, " is no number"));
  }
  return value;
}

}  // namespace kvtier::bench
