// SetLogger hands the log lines of this process's clients to the application, instead of stderr.
#ifndef KVTIER_CLIENT_LOGGER_H_
#define KVTIER_CLIENT_LOGGER_H_

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "core/log.h"

namespace kvtier {

// Maximum number of lines that wait for the logger; further lines are dropped, and a line says how
// many.
inline constexpr size_t kMaxLinesQueued = 1024;

using Logger = absl::AnyInvocable<void(LogLevel level, absl::string_view line)>;

// Has each line go to `logger`, in order, without its line end, on a thread of the client's that
// holds no lock: the logger may wait, take locks and call the client. Null: lines go to stderr
// again. Returns when the previous logger is called no more, so a logger must not call it. In a
// forked child lines go to stderr. Thread-safe.
void SetLogger(Logger logger);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LOGGER_H_
