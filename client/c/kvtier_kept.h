/* kvtier_kept.h: blocks that stay in the node's host memory for a time to live, as sellers of
 * prompt caches promise it, and prefixes that go with all that continues them. The conventions are
 * those of kvtier.h. */
#ifndef KVTIER_KEPT_H_
#define KVTIER_KEPT_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"
#include "kvtier_sequences.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define KVTIER_MIN_TTL_MS 1000
#define KVTIER_MAX_TTL_MS 3600000

/* Why blocks that the node has are not kept. */
enum {
  KVTIER_KEEP_NONE = 0,         /* Nothing was refused. */
  KVTIER_KEEP_TENANT_BYTES = 1, /* The tenant keeps all the bytes that it may. */
  KVTIER_KEEP_TENANT_BLOCKS = 2,
  KVTIER_KEEP_TENANT_PREFIXES = 3,
  KVTIER_KEEP_NODE_BLOCKS = 4, /* All tenants together do. */
  KVTIER_KEEP_NODE_PREFIXES = 5
};

/* One prefix that the node keeps for this tenant. */
typedef struct {
  uint64_t id;     /* Of the tenant's on the node while its agent runs, from 1 on. */
  uint64_t blocks; /* That are there. */
  uint64_t bytes;  /* Of host memory that they take; of kvtier_keep() 0. */
  uint64_t ttl_left_ms;
} kvtier_kept;

/* What a tenant keeps on the node, or may keep. */
typedef struct {
  uint64_t prefixes;
  uint64_t blocks; /* A block counts once for each prefix that it is of. */
  uint64_t bytes;  /* Of host memory; once for all. */
} kvtier_kept_use;

/* Keeps what the node has of the sequences, loaded from its disks within the timeout if need be,
 * for `ttl_ms` (KVTIER_MIN_TTL_MS to KVTIER_MAX_TTL_MS): as much as fits into the tenant's quota.
 * The same sequences again renew it; a shorter time takes nothing away. Fills *kept, and blocks[i],
 * where `blocks` is not NULL, with how many blocks of sequence i are kept; *limit, where it is not
 * NULL, gets KVTIER_KEEP_*. Returns how many all are; 0: nothing is kept. KVTIER_INVALID names the
 * argument; KVTIER_ABSENT: no agent answered in time. */
int64_t kvtier_keep(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                    uint32_t ttl_ms, int32_t timeout_ms, kvtier_kept* kept, uint64_t* blocks,
                    int* limit);

/* Fills `prefixes` with what the tenant keeps on the node, by id, as far as there is `room`, and
 * *used and *quota, where these are not NULL. Returns how many prefixes there are; KVTIER_ABSENT:
 * no agent answered in time. */
int64_t kvtier_list_kept(kvtier_client* client, int32_t timeout_ms, kvtier_kept* prefixes,
                         size_t room, kvtier_kept_use* used, kvtier_kept_use* quota);

/* Ends the kept prefix `id` before its time, 0: all of the tenant's on the node. Returns how many
 * that were; KVTIER_ABSENT: no agent answered in time. */
int64_t kvtier_end_kept(kvtier_client* client, uint64_t id, int32_t timeout_ms);

/* Drops the blocks and all that descends from them from every tier of the node, as kvtier_delete()
 * drops them alone. *more, where it is not NULL, gets 1 where not all was looked at in time: call
 * again. */
int64_t kvtier_drop_prefix(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           int32_t timeout_ms, uint64_t* held, uint32_t* more);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // KVTIER_KEPT_H_
