/* kvtier_kept.h: keeps blocks in the node's host memory for a time to live, as sellers of prompt
 * caches promise it, and drops prefixes with all blocks that continue them. The conventions are
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
  KVTIER_KEEP_NODE_BLOCKS = 4, /* All tenants together keep all the blocks that they may. */
  KVTIER_KEEP_NODE_PREFIXES = 5
};

/* One prefix that the node keeps for this tenant. */
typedef struct {
  uint64_t id;     /* Its id among the tenant's on the node, from 1, while the agent runs. */
  uint64_t blocks; /* Blocks of it that are in host memory. */
  uint64_t bytes;  /* Bytes of host memory that they take; kvtier_keep() writes 0. */
  uint64_t ttl_left_ms;
} kvtier_kept;

/* Amounts that a tenant keeps on the node, or may keep. */
typedef struct {
  uint64_t prefixes;
  uint64_t blocks; /* A block counts once for each prefix that it belongs to. */
  uint64_t bytes;  /* Bytes of host memory; each block counts once. */
} kvtier_kept_use;

/* Keeps the sequences' blocks that the node has for `ttl_ms` (KVTIER_MIN_TTL_MS to
 * KVTIER_MAX_TTL_MS), as many as fit into the tenant's quota. Blocks that only a disk has are
 * loaded within the timeout. Another call with the same sequences renews the time to live; a
 * shorter one takes nothing away. Fills *kept; blocks[i], where `blocks` is not NULL, gets how many
 * blocks of sequence i are kept; *limit, where it is not NULL, gets KVTIER_KEEP_*. Returns how many
 * blocks are kept altogether; 0: none. KVTIER_INVALID names the argument; KVTIER_ABSENT: no agent
 * answered in time. */
int64_t kvtier_keep(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                    uint32_t ttl_ms, int32_t timeout_ms, kvtier_kept* kept, uint64_t* blocks,
                    int* limit);

/* Fills `prefixes` with the prefixes that the tenant keeps on the node, by id, `room` of them at
 * most, and *used and *quota, where these are not NULL. Returns how many prefixes there are;
 * KVTIER_ABSENT: no agent answered in time. */
int64_t kvtier_list_kept(kvtier_client* client, int32_t timeout_ms, kvtier_kept* prefixes,
                         size_t room, kvtier_kept_use* used, kvtier_kept_use* quota);

/* Ends the kept prefix `id` before its time; an `id` of 0 ends all that the tenant has on the node.
 * Returns how many ended; KVTIER_ABSENT: no agent answered in time. */
int64_t kvtier_end_kept(kvtier_client* client, uint64_t id, int32_t timeout_ms);

/* Drops the named blocks and all blocks that descend from them, from every tier of the node;
 * kvtier_delete() drops the named ones only. *more, where it is not NULL, gets 1 if time ran out
 * before all of them were looked at: call again. */
int64_t kvtier_drop_prefix(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           int32_t timeout_ms, uint64_t* held, uint32_t* more);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // KVTIER_KEPT_H_
