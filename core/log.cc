#include "core/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "core/clock.h"

namespace kvtier {
namespace {

// Relaxed: a filter, which orders nothing.
std::atomic<LogLevel> lowest_level{LogLevel::kInfo};

std::atomic<LogSink> sink{nullptr};

// A pipe that is ready takes this much at once.
constexpr size_t kMaxLineBytes = PIPE_BUF;
// Maximum number of times that a thread yields to others that write; each takes microseconds. A
// lock without a bound would hang a process that was forked while another thread held it.
constexpr int kMaxYields = 10000;

std::atomic<bool> is_writing{false};
std::atomic<uint64_t> lost_lines{0};  // Number of lines since the last that was written.

constexpr char Letter(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return 'I';
    case LogLevel::kWarning:
      return 'W';
    case LogLevel::kError:
      return 'E';
  }
  return '?';
}

std::string LineOf(LogLevel level, absl::string_view text) {
  const double seconds = absl::ToDoubleSeconds(MonotonicClock().Now() - absl::UnixEpoch());
  std::string line = absl::StrFormat("%c %.6f %s: %s", Letter(level), seconds,
                                     program_invocation_short_name, text);
  if (line.size() >= kMaxLineBytes) line.resize(kMaxLineBytes - 1);
  line.push_back('\n');
  return line;
}

// Writes the line if stderr takes all of it at once. A pipe whose reader is gone takes none, and to
// ask it raises no SIGPIPE.
bool WriteAtOnce(const std::string& line) {
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&out, 1, 0) != 1 || (out.revents & (POLLERR | POLLNVAL)) != 0) return false;
  return write(STDERR_FILENO, line.data(), line.size()) > 0;
}

bool MayWrite() {
  for (int yields = 0; is_writing.exchange(true, std::memory_order_acquire); ++yields) {
    if (yields == kMaxYields) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

void Log(LogLevel level, const std::string& text) {
  if (level < lowest_level.load(std::memory_order_relaxed)) return;
  // Text may quote input from outside, whose control bytes could forge lines or colours.
  std::string clean = text;
  std::replace_if(
      clean.begin(), clean.end(),
      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }, ' ');
  const LogSink taker = sink.load(std::memory_order_acquire);
  if (taker != nullptr && taker(level, clean)) return;
  if (!MayWrite()) {
    lost_lines.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t lost = lost_lines.load(std::memory_order_relaxed);
  if (lost > 0 &&
      WriteAtOnce(LineOf(LogLevel::kWarning, absl::StrCat(lost,
                                                          " lines of the log are lost: nobody took "
                                                          "them from stderr")))) {
    lost_lines.fetch_sub(lost, std::memory_order_relaxed);
  }
  if (!WriteAtOnce(LineOf(level, clean))) lost_lines.fetch_add(1, std::memory_order_relaxed);
  is_writing.store(false, std::memory_order_release);
}

void SetLogSink(LogSink to) { sink.store(to, std::memory_order_release); }

void SetLogLevel(LogLevel level) { lowest_level.store(level, std::memory_order_relaxed); }

}  // namespace kvtier
