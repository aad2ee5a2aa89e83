/* kvtier_parts.h: an onboard that hands over blocks as they become ready, so that copies of what is
 * in host memory begin while the rest still comes from a disk or another node. The conventions are
 * those of kvtier.h.
 */
#ifndef KVTIER_PARTS_H_
#define KVTIER_PARTS_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"
#include "kvtier_sequences.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Outcome of one sequence, over all of its parts. */
typedef struct {
  uint64_t blocks; /* Blocks that came; of a run the leading ones. */
  int32_t missed;  /* Why the first block that is missing did not come: KVTIER_MISSED_*. */
  uint32_t reserved;
} kvtier_in_parts;

enum { KVTIER_OP_ONBOARD_PART = 9, KVTIER_OP_ONBOARD_PARTS = 10 };

/* Brings blocks to host memory as kvtier_submit_onboard_sequences() does, and has several
 * completions with the `tag`.
 *
 * Each part is a completion of op KVTIER_OP_ONBOARD_PART: `hit` is yours now, with `blocks` blocks
 * of sequence `sequence` under leases of their own. kvtier_hit_key_index() says which keys they
 * have; kvtier_hit_missed() says nothing yet. The blocks of a run follow those of the part before;
 * those of a set come in any order.
 *
 * The last completion is of op KVTIER_OP_ONBOARD_PARTS: `blocks` are those of all parts together,
 * and `hit` is NULL. The kvtier_poll() that returns it fills ends[i] for sequence i, which must
 * stay until then.
 *
 * The call has its place among KVTIER_MAX_SUBMITTED until the last completion is polled. Parts that
 * nobody polls wait with their leases. Each has at least one block, so there are at most as many as
 * the call has keys, and as the agent gives a session leases. */
int kvtier_submit_onboard_parts(kvtier_client* client, const kvtier_sequence* sequences,
                                size_t count, uint32_t flags, int32_t timeout_ms,
                                kvtier_in_parts* ends, uint64_t tag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_PARTS_H_ */
