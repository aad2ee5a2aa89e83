// One line an event to stderr, for operators: level, seconds of CLOCK_MONOTONIC,
// program, text. Rates are the caller's business; nothing on a per-block path logs.
#ifndef KVTIER_CORE_LOG_H_
#define KVTIER_CORE_LOG_H_

#include <string>

namespace kvtier {

enum class LogLevel { kInfo, kWarning, kError };

// Thread-safe: a line is one write(2). Newlines in `text` become spaces.
void Log(LogLevel level, const std::string& text);
// Below this level lines are dropped; kInfo at start. The simulator raises it.
void SetLogLevel(LogLevel level);

}  // namespace kvtier

#endif  // KVTIER_CORE_LOG_H_
