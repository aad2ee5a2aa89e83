#include "core/log.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "core/clock.h"

namespace kvtier {
namespace {

// Relaxed: a filter, which orders nothing.
std::atomic<LogLevel> lowest_level{LogLevel::kInfo};

std::atomic<LogSink> sink{nullptr};

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
  const double seconds = absl::ToDoubleSeconds(MonotonicClock().Now() - absl::UnixEpoch());
  const std::string line = absl::StrFormat("%c %.6f %s: %s\n", Letter(level), seconds,
                                           program_invocation_short_name, clean);
  // A failure of the log itself cannot be reported anywhere.
  const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(ignored);
}

void SetLogSink(LogSink to) { sink.store(to, std::memory_order_release); }

void SetLogLevel(LogLevel level) { lowest_level.store(level, std::memory_order_relaxed); }

}  // namespace kvtier
