// SetLogger gives what the clients of this process say to the application, in place of stderr.
#ifndef KVTIER_CLIENT_LOGGER_H_
#define KVTIER_CLIENT_LOGGER_H_

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "core/log.h"

namespace kvtier {

// Lines that wait for the logger; beyond them lines are dropped, and a line says how many.
inline constexpr size_t kMaxLinesQueued = 1024;

using Logger = absl::AnyInvocable<void(LogLevel level, absl::string_view line)>;

// From now on each line goes to `logger`, in order, without its end, on a thread of the client's
// that holds nothing: the logger may wait, take locks and call the client. Null: lines go to stderr
// again. Returns when the logger before is called no more, so not from inside of it. In a child
// that is forked lines go to stderr. Thread-safe.
void SetLogger(Logger logger);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LOGGER_H_
