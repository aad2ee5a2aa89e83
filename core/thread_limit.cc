#include "core/thread_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/free_memory.h"

namespace kvtier {
namespace {

// Set by SayWhyNoThreadStarts().
const char* program_name = "";
std::terminate_handler handler_before = nullptr;

// Returns the limits of threads, and how many a cgroup has.
std::string LimitsText() {
  std::string text = "RLIMIT_NPROC of this user is ";
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    absl::StrAppend(&text, "unlimited");
  } else {
    absl::StrAppend(&text, limit.rlim_cur);
  }
  for (const std::string& directory : CgroupDirectories("pids")) {
    uint64_t most = 0;
    uint64_t there = 0;
    std::ifstream(directory + "/pids.current") >> there;
    if (!(std::ifstream(directory + "/pids.max") >> most)) continue;  // "max", or no such file.
    absl::StrAppend(&text, ", ", directory, "/pids.max is ", most, " of which ", there,
                    " are taken");
  }
  return text;
}

// Says what happened if it was a thread that did not start.
[[noreturn]] void End() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      std::fprintf(stderr, "%s: cannot start a thread: %s; %s; raise it\n", program_name,
                   error.what(), LimitsText().c_str());
      _exit(1);
    }
  } catch (...) {
  }
  handler_before();
  std::abort();
}

}  // namespace

absl::Status TryThreads(size_t count) {
  absl::Notification tried;
  std::vector<std::thread> threads;
  absl::Status status;
  try {
    while (threads.size() < count) {
      threads.emplace_back([&tried] { tried.WaitForNotification(); });
    }
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread: ", count, " are needed and ", threads.size(),
                     " could be started: ", error.what(), "; ", LimitsText(), "; raise it"));
  }
  tried.Notify();
  for (std::thread& thread : threads) thread.join();
  return status;
}

void SayWhyNoThreadStarts(const char* program) {
  program_name = program;
  handler_before = std::set_terminate(End);
}

}  // namespace kvtier
