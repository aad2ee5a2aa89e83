/* kvtier_copy.h: copies between a worker's own memory and the blocks of kvtier.h, in one pass over
 * the bytes that also takes the block's sum. The worker's memory may be many pieces, of any size
 * and alignment; together they are as long as the block. */
#ifndef KVTIER_COPY_H_
#define KVTIER_COPY_H_

#include <stddef.h>

#include "kvtier.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Memory that the caller owns and the library writes. */
typedef struct {
  void* data;
  size_t size;
} kvtier_room;

/* Takes the slot of entry `index` and fills it with the `count` pieces, one after the other. The
 * block's sum goes with the commit, so that the agent need not read the bytes; a later
 * kvtier_put_slot() of the entry forgets the sum. KVTIER_INVALID, naming the argument: index >=
 * kvtier_put_count(), the entry has no slot, a piece is NULL, or the sizes do not add up to the
 * block's; nothing was taken. */
int kvtier_copy_in(kvtier_put* put, size_t index, const kvtier_bytes* pieces, size_t count);

/* Fills the `count` pieces, one after the other, with block `index` of the hit and compares the sum
 * of what they then hold with the lease's. KVTIER_OK: they hold the block. Otherwise they are not
 * to be used: KVTIER_DAMAGED, the sum differs, so the block is a miss, and the agent is told;
 * KVTIER_ENDED, the lease or the session ended meanwhile, so the whole hit is a miss;
 * KVTIER_INVALID, naming what: index >= kvtier_hit_count(), a piece is NULL, or the sizes do not
 * add up to the block's. */
int kvtier_copy_out(const kvtier_hit* hit, size_t index, const kvtier_room* pieces, size_t count);

/* Takes the sum of block `index` of the hit where it lies and compares it with the lease's, for
 * callers that read or copy the bytes by other means: called after the last read, it proves the
 * bytes that were read. Returns what kvtier_copy_out() returns. */
int kvtier_prove(const kvtier_hit* hit, size_t index);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_COPY_H_ */
