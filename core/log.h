// Log() writes one line for each event to stderr or to a sink, for operators: level, seconds of
// CLOCK_MONOTONIC, program, text. The caller limits the rate; nothing on a per-block path logs.
#ifndef KVTIER_CORE_LOG_H_
#define KVTIER_CORE_LOG_H_

#include <string>

namespace kvtier {

enum class LogLevel { kInfo, kWarning, kError };

// Thread-safe: a line is one write(2). Newlines in `text` become spaces.
void Log(LogLevel level, const std::string& text);
// Sets the level below which lines are dropped; it is kInfo at start. The simulator raises it.
void SetLogLevel(LogLevel level);

// Takes a line in place of stderr, control bytes made spaces; false: it goes to stderr all the
// same. Any thread, whatever locks the one that logs holds: it must not wait, log, or call its
// callers.
using LogSink = bool (*)(LogLevel level, const std::string& text);
// Sets where lines go; null, as at start: to stderr.
void SetLogSink(LogSink sink);

}  // namespace kvtier

#endif  // KVTIER_CORE_LOG_H_
