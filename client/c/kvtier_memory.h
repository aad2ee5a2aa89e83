/* kvtier_memory.h: the host memory that the agent handed to the current session, for a worker that
 * pins it for a device. The conventions are those of kvtier.h. */
#ifndef KVTIER_MEMORY_H_
#define KVTIER_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct kvtier_mapping kvtier_mapping; /* Keeps the memory mapped. */

typedef struct {
  size_t struct_size;
  uint32_t is_staged; /* 1: `write` is a region of the session's own, from which the agent copies at
                       * commit. 0: it is the same bytes at the same offsets as `read`. */
  uint32_t reserved;  /* 0. */
  const void* read;   /* Hits lie here. */
  size_t read_bytes;
  void* write; /* Slots lie here; NULL: the agent hands out none. */
  size_t write_bytes;
} kvtier_host_memory;

/* Fills `*memory`. `*mapping` keeps the memory mapped, also if the agent is gone, until the caller
 * gives it back by kvtier_release_mapping(). KVTIER_ABSENT: no agent; *mapping is NULL then. */
int kvtier_get_host_memory(kvtier_client* client, kvtier_host_memory* memory,
                           kvtier_mapping** mapping);
/* Gives the mapping back. NULL is ignored. */
void kvtier_release_mapping(kvtier_mapping* mapping);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_MEMORY_H_ */
