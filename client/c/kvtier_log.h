/* kvtier_log.h: hands the log lines of this process's clients to the application's own log. */
#ifndef KVTIER_LOG_H_
#define KVTIER_LOG_H_

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum { KVTIER_LOG_INFO = 0, KVTIER_LOG_WARNING = 1, KVTIER_LOG_ERROR = 2 };

/* `line` ends in NUL, has no line end, and is the library's: it is read during the call only. */
typedef void (*kvtier_logger)(void* context, int level, const char* line);

/* Has each line go to `logger` with `context`, in order, on a thread of the library's that holds no
 * lock: the logger may wait and call the library, but not this function. Up to 1024 lines wait for
 * it; further lines are dropped, and a line says how many. NULL: lines go to stderr, as at start.
 * Returns when the previous logger is not called any more. In a forked child lines go to stderr. */
void kvtier_set_logger(kvtier_logger logger, void* context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // KVTIER_LOG_H_
