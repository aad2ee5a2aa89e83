#include "bench/fio.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status_macros.h"

extern char** environ;

namespace kvtier::bench {
namespace {

// Runs the program found in PATH and returns what it wrote to stdout.
absl::StatusOr<std::string> OutputOf(std::vector<std::string> words) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::UnavailableError(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  std::array<char, 4096> part;
  ssize_t got = 0;
  while (error == 0 && (got = read(ends[0], part.data(), part.size())) > 0) {
    output.append(part.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  if (error == ENOENT) {
    return absl::NotFoundError(absl::StrCat(words[0], " is not installed (apt install fio)"));
  }
  if (error != 0) return absl::UnavailableError(absl::StrCat(words[0], ": ", std::strerror(error)));
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::UnavailableError(absl::StrCat(words[0], " failed: ", output.substr(0, 400)));
  }
  return output;
}

// The number after `"bw_bytes" :` inside the object `side` ("read" or "write"): fio
// prints the two sides of a job in that order, each with its own.
absl::StatusOr<double> Bandwidth(absl::string_view json, absl::string_view side) {
  constexpr absl::string_view kField = "\"bw_bytes\" : ";
  const size_t object = json.find(absl::StrCat("\"", side, "\" : {"));
  const size_t field = object == json.npos ? json.npos : json.find(kField, object);
  if (field == json.npos) return absl::UnavailableError("fio printed no bandwidth");
  const absl::string_view rest = json.substr(field + kField.size());
  double value = 0;
  if (!absl::SimpleAtod(rest.substr(0, rest.find_first_not_of("0123456789.")), &value)) {
    return absl::UnavailableError("fio's bandwidth is no number");
  }
  return value;
}

}  // namespace

absl::StatusOr<double> RunFio(const FioJob& job) {
  std::vector<std::string> words = {"fio",
                                    "--name=reference",
                                    "--ioengine=io_uring",
                                    "--direct=1",
                                    "--registerfiles=1",
                                    "--norandommap=1",
                                    "--output-format=json",
                                    absl::StrCat("--filename=", job.file),
                                    absl::StrCat("--rw=", job.pattern),
                                    absl::StrCat("--size=", job.file_bytes),
                                    absl::StrCat("--bs=", job.block_bytes),
                                    absl::StrCat("--iodepth=", job.depth)};
  if (job.seconds > 0) {
    words.push_back("--time_based=1");
    words.push_back(absl::StrCat("--runtime=", static_cast<int>(job.seconds * 1000), "ms"));
  }
  KVT_ASSIGN_OR_RETURN(const std::string json, OutputOf(std::move(words)));
  return Bandwidth(json, job.pattern == "randread" ? "read" : "write");
}

}  // namespace kvtier::bench
