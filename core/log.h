// Log() writes one line for each event to stderr or to a sink, for operators: level, seconds of
// CLOCK_MONOTONIC, program, text. The caller limits the rate; nothing on a per-block path logs.
#ifndef KVTIER_CORE_LOG_H_
#define KVTIER_CORE_LOG_H_

#include <string>

namespace kvtier {

enum class LogLevel { kInfo, kWarning, kError };

// Writes a line to stderr by one write(2), cut at PIPE_BUF bytes. Newlines in `text` become spaces.
// It never waits for whoever reads stderr, and is never ended by SIGPIPE: a line that is not taken
// at once is lost, and a later one says how many were. Thread-safe.
void Log(LogLevel level, const std::string& text);
// Sets the level below which lines are dropped; it is kInfo at start. The simulator raises it.
void SetLogLevel(LogLevel level);

// LogSink takes a line in place of stderr, with control bytes made spaces. If it returns false, the
// line still goes to stderr. It is called on any thread, which may hold any lock, so it must not
// wait, log, or call its callers.
using LogSink = bool (*)(LogLevel level, const std::string& text);
// Sets where lines go; null, as at start: to stderr.
void SetLogSink(LogSink sink);

}  // namespace kvtier

#endif  // KVTIER_CORE_LOG_H_
