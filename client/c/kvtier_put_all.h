/* kvtier_put_all.h: stores a run of any length, and says how many blocks of a space the agent has
 * room for. The conventions are those of kvtier.h. */
#ifndef KVTIER_PUT_ALL_H_
#define KVTIER_PUT_ALL_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct {
  size_t struct_size;
  uint32_t usable;     /* 1: the agent takes the space's blocks now. 0: the fields below are 0. */
  uint32_t reserved;   /* 0. */
  uint64_t slab_bytes; /* Largest block of this agent. */
  uint64_t slot_bytes; /* Bytes that the longest block of the space takes. */
  uint64_t host_slots; /* Slots of that size that fit in the tenant's host memory. */
  /* Blocks of the space that can be reserved and not yet committed, where workers write to a region
   * of their own; 0: the tenant's memory is the limit. */
  uint64_t staging_slots;
} kvtier_limits;

/* Fills `*limits`, and writes why the space is not usable to `why_not` (may be NULL), which has
 * room for `size` bytes with its NUL. Never waits. KVTIER_INVALID names the argument. */
int kvtier_get_limits(kvtier_client* client, kvtier_space space, kvtier_limits* limits,
                      char* why_not, size_t size);

/* Returns the pieces of block `index`, one after the other in `*count` entries, which the library
 * reads before the next call. It is called in the caller's thread, for each block that is to be
 * copied. In a space with any_length, where a block is as long as its pieces, it is called once
 * more before that, for each block. */
typedef const kvtier_bytes* (*kvtier_pieces_of)(void* user, size_t index, size_t* count);

/* Numbers of keys, by the outcome for their blocks. */
typedef struct {
  uint64_t stored;  /* Blocks that this call published. */
  uint64_t present; /* Blocks that the node has already, or that another worker is putting. */
  uint64_t missed;  /* Blocks that were not put: there was no slot for them, or no agent. */
} kvtier_put_counts;

/* Stores the blocks of `keys`, a run of any length in prefix order behind `parent` (NULL: a root),
 * a quarter of the tenant's slots at a time, the leading blocks first. Each time that there is no
 * room it waits up to `timeout_ms` for blocks to go to a disk. Fills `*counts`. KVTIER_INVALID: the
 * pieces of a block do not add up to a length that it may have, or as kvtier_reserve(); blocks that
 * were stored stay. */
int kvtier_put_all(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                   const kvtier_bytes* keys, size_t count, kvtier_pieces_of pieces_of, void* user,
                   int32_t timeout_ms, kvtier_put_counts* counts);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_PUT_ALL_H_ */
