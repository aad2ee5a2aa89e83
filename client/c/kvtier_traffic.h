/* kvtier_traffic.h: counts what one client moved and from where, what it missed and why, and how
 * long its calls took: for a worker's own metrics, beside the counters of kvtier_get_stats(). */
#ifndef KVTIER_TRAFFIC_H_
#define KVTIER_TRAFFIC_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"
#include "kvtier_sequences.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define KVTIER_SOURCES 4      /* KVTIER_GPU, KVTIER_HOST, KVTIER_DISK, KVTIER_PEER. */
#define KVTIER_MISS_REASONS 9 /* KVTIER_MISSED_*. */

enum {
  KVTIER_CALL_MATCH = 0,
  KVTIER_CALL_ONBOARD = 1,
  KVTIER_CALL_PREFETCH = 2,
  KVTIER_CALL_RESERVE = 3,
  KVTIER_CALL_COMMIT = 4,
  KVTIER_CALL_PING = 5
};
#define KVTIER_CALLS 6

/* Times of calls that were answered, as the client measured them; too long by 19 % at most. */
typedef struct {
  uint64_t calls;
  uint64_t p50_us;
  uint64_t p99_us;
} kvtier_latency;

typedef struct {
  size_t struct_size;
  uint64_t onboarded_bytes;
  uint64_t committed_bytes;
  uint64_t onboarded_from[KVTIER_SOURCES]; /* Onboarded blocks, by source. */
  /* Missed blocks, by the reason why the first missing block of their sequence did not come. */
  uint64_t missed_because[KVTIER_MISS_REASONS];
  kvtier_latency latencies[KVTIER_CALLS]; /* By KVTIER_CALL_*. */
} kvtier_traffic;

/* Fills `*traffic`, as far as its struct_size goes. KVTIER_INVALID, naming the argument: client or
 * traffic is NULL, or struct_size is less than this header's. */
int kvtier_get_traffic(kvtier_client* client, kvtier_traffic* traffic);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // KVTIER_TRAFFIC_H_
