// HighWater measures the memory of a process all the time while the object lives.
#ifndef KVTIER_TESTS_TESTING_HIGH_WATER_H_
#define KVTIER_TESTS_TESTING_HIGH_WATER_H_

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kvtier::testing {

// Returns the process's resident memory in bytes, without files and the arena.
inline size_t PrivateBytesOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "RssAnon:")) continue;
    size_t kib = 0;
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      if (absl::SimpleAtoi(word, &kib)) return kib * 1024;
    }
  }
  return 0;
}

class HighWater {
 public:
  explicit HighWater(pid_t pid)
      : thread_([this, pid] {
          while (!stop_) {
            most_ = std::max(most_.load(), PrivateBytesOf(pid));
            absl::SleepFor(absl::Milliseconds(2));
          }
        }) {}
  ~HighWater() {
    stop_ = true;
    thread_.join();
  }
  size_t most() const { return most_; }  // Most bytes so far.

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> most_ = 0;
  std::thread thread_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_HIGH_WATER_H_
