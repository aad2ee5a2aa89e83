// Threads are refused where a user or a cgroup has as many as it may. These functions say so: a
// failed std::thread alone ends the program by std::system_error.
#ifndef KVTIER_CORE_THREAD_LIMIT_H_
#define KVTIER_CORE_THREAD_LIMIT_H_

#include <cstddef>

#include "absl/status/status.h"

namespace kvtier {

// Starts so many threads at the same time, and ends them. Errors: kResourceExhausted, with how many
// were started, how many are needed, and the limits.
absl::Status TryThreads(size_t count);

// Has a std::thread that could not be started end the program with status 1 and a line, which
// begins with `program` and names the limits. REQUIRES: `program` stays; call it once.
void SayWhyNoThreadStarts(const char* program);

}  // namespace kvtier

#endif  // KVTIER_CORE_THREAD_LIMIT_H_
