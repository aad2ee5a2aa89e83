/* kvtier_sequences.h: the calls of kvtier.h for several runs and sets at once, and why a block that
 * was asked for did not come. The conventions are those of kvtier.h.
 */
#ifndef KVTIER_SEQUENCES_H_
#define KVTIER_SEQUENCES_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define KVTIER_MAX_SEQUENCES 256 /* Sequences in one call; together KVTIER_MAX_KEYS keys. */

#define KVTIER_MAX_CONVERSATION_BYTES 256
#define KVTIER_DEFAULT_PRIORITY 50
#define KVTIER_MAX_PRIORITY 100

enum {
  KVTIER_FINISH_UNKNOWN = 0,
  KVTIER_FINISH_STOP = 1,       /* The answer is complete. */
  KVTIER_FINISH_TOOL_CALLS = 2, /* The answer calls tools; their results are the next turn. */
  KVTIER_FINISH_LENGTH = 3,     /* The answer reached the limit of its length. */
  KVTIER_FINISH_CANCELLED = 4
};

/* Knowledge of an engine about the next use of blocks. It moves them in the order in which they
 * leave memory, and a wrong hint costs hits only. All zero behind struct_size says nothing. */
typedef struct {
  size_t struct_size;
  /* Engine's id of the session or conversation, 1..256 bytes, of which only a hash is sent; size 0:
   * unknown. */
  kvtier_bytes conversation;
  uint32_t has_turn;        /* 1: `turn` is known. */
  uint32_t turn;            /* Requests of the conversation before this one. */
  uint32_t has_priority;    /* 0: the priority is KVTIER_DEFAULT_PRIORITY. */
  uint32_t priority;        /* 0, which leaves first, to KVTIER_MAX_PRIORITY. */
  uint32_t will_not_return; /* 1: nobody will ask for these blocks again. */
  uint32_t finish;          /* KVTIER_FINISH_*: why the request ended. */
} kvtier_reuse_hint;

/* The blocks that one request of an engine asks about. A run is a prefix: keys are in prefix order,
 * and blocks after a hole are of no use. A set has no order and no parents, and may have holes. */
typedef struct {
  kvtier_space space;       /* A space of the client that is asked; a call may mix spaces. */
  uint32_t is_set;          /* 0: a run. 1: a set. */
  const kvtier_bytes* keys; /* Engine keys, 8..64 bytes each. */
  size_t count;             /* Number of the keys. */
  kvtier_bytes parent;      /* Key of the block before a run that is reserved; size 0: a root. */
  /* Most tokens to look up or bring: only as many leading keys are used as hold no more than this.
   * Calls that reserve or delete ignore it. 0: no limit. */
  uint64_t max_tokens;
  /* 1: no block of this request is to be stored; a reserve gives KVTIER_NO_STORE for its keys. */
  uint32_t no_store;
  /* Bytes of the block of each key, 1 to the space's block_bytes, where they are reserved in a
   * space with any_length, which is for codec "raw" and target KVTIER_HOST. NULL in other spaces,
   * where all blocks have block_bytes; calls that reserve nothing ignore it. kvtier_reserve() and
   * kvtier_reserve_entries() take no lengths, and are for other spaces. */
  const uint64_t* lengths;
  /* Hint about the next use of the blocks, for calls that onboard, prefetch, reserve or advise; the
   * others ignore it. NULL: nothing is known. */
  const kvtier_reuse_hint* hint;
} kvtier_sequence;

/* Places of the blocks of one sequence. They are a guess; only an onboard makes sure. */
typedef struct {
  uint64_t blocks;       /* Blocks known on this node or others; of a run the leading ones. */
  uint64_t local_blocks; /* Blocks of these that are on this node. */
  /* Array of the caller's with an entry for each key of the sequence, or NULL. An entry gets the
   * best tier that has the block, KVTIER_GPU, KVTIER_HOST or KVTIER_DISK, or KVTIER_NOT_HERE where
   * no node has it. Keys of a run after the leading blocks get KVTIER_NOT_HERE. */
  uint8_t* tiers;
} kvtier_matched;

/* ---- Calls that wait ---- */

/* Fills matched[i] for sequence i. Returns KVTIER_OK. KVTIER_INVALID names the argument, such as
 * sequences[i].keys[n] where there are several sequences. */
int kvtier_match_sequences(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           uint32_t flags, int32_t timeout_ms, kvtier_matched* matched);

/* Fills *matched with the leading blocks of the run `keys` that every rank of a group has, and for
 * each block the farthest tier that a rank has it in. Each rank has a space of its own;
 * space_count x count is KVTIER_MAX_KEYS at most. */
int kvtier_match_group(kvtier_client* client, const kvtier_space* spaces, size_t space_count,
                       const kvtier_bytes* keys, size_t count, uint32_t flags, int32_t timeout_ms,
                       kvtier_matched* matched);

/* Brings the blocks of each sequence that it can within the timeout to `target` and leases them: of
 * a run the leading blocks, of a set any. hits[i] gets a hit for sequence i, also with no block, so
 * that kvtier_hit_missed() can say why; give all back by kvtier_release_hits(). All leases begin
 * together. Returns how many blocks came. On an error each hits[i] is NULL. */
int64_t kvtier_onboard_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                 size_t count, int target, uint32_t flags, int32_t timeout_ms,
                                 kvtier_hit** hits);

/* Reserves a slot for each key that the node neither has nor is being given. *put gets an entry
 * for each key, sequence by sequence, whenever the agent answered; otherwise it is NULL. Returns
 * how many slots were reserved. */
int64_t kvtier_reserve_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                 size_t count, int target, int32_t timeout_ms, kvtier_put** put);

/* Asks for blocks to be brought to host memory. Returns how many are there or coming. */
int64_t kvtier_prefetch_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                  size_t count, uint32_t flags, int32_t timeout_ms);

/* Tells the node, by each sequence's hint, what is known now about the next use of blocks that it
 * has, for example at the end of a request. This does not count as a use of them. Returns how many
 * are in the node's memory; also 0 if no agent answered in time, which costs hits at worst. */
int64_t kvtier_advise(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                      int32_t timeout_ms);

/* Drops blocks of the tenant from every tier of this node for ever, a restart included. Returns how
 * many were dropped; *held (may be NULL) gets how many stay because they are leased or being
 * copied. KVTIER_ABSENT: no agent answered in time. */
int64_t kvtier_delete(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                      int32_t timeout_ms, uint64_t* held);

/* ---- Hits ---- */

/* Returns the place of block `index`'s key among its sequence's keys. For a run that is `index`,
 * except in a part of one (kvtier_parts.h). KVTIER_INVALID: index >= kvtier_hit_count(). */
int64_t kvtier_hit_key_index(const kvtier_hit* hit, size_t index);

enum {
  KVTIER_MISSED_NONE = 0,          /* No block is missing. */
  KVTIER_MISSED_ABSENT = 1,        /* No tier that was asked has it. */
  KVTIER_MISSED_EVICTED = 2,       /* Absent, because it left this node's memory to make room. */
  KVTIER_MISSED_DEADLINE = 3,      /* It did not come in time. */
  KVTIER_MISSED_NO_ROOM = 4,       /* There was no room for it, or no lease left. */
  KVTIER_MISSED_DAMAGED = 5,       /* Its bytes did not match its sum. */
  KVTIER_MISSED_UNREACHABLE = 6,   /* The agent is away, or the breaker is open. */
  KVTIER_MISSED_SPACE_REFUSED = 7, /* The agent does not take the space. */
  KVTIER_MISSED_BUSY = 8 /* It was not waited for, because too many blocks waited already. */
};
/* Returns why the first block that is missing did not come. KVTIER_INVALID: hit is NULL. */
int kvtier_hit_missed(const kvtier_hit* hit);

/* ---- Calls that do not wait ----
 * These functions act as the waiting ones above, and make a completion (kvtier.h): its op is that
 * of the call for one run, its `blocks` and `local_blocks` count all sequences together, and its
 * `hit` is NULL. The kvtier_poll() that returns the completion fills what the waiting call would
 * fill: `matched` with its tiers, and `hits`, must live until then, while `sequences` need not
 * outlive the call. kvtier_close() fills nothing. */

int kvtier_submit_match_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                  size_t count, uint32_t flags, int32_t timeout_ms,
                                  kvtier_matched* matched, uint64_t tag);
int kvtier_submit_onboard_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                    size_t count, int target, uint32_t flags, int32_t timeout_ms,
                                    kvtier_hit** hits, uint64_t tag);
/* The completion's op is KVTIER_OP_RESERVE_ENTRIES, and its `put` that of
 * kvtier_reserve_sequences(). */
int kvtier_submit_reserve_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                    size_t count, int target, int32_t timeout_ms, uint64_t tag);
enum { KVTIER_OP_DELETE = 6 };
/* The completion's `blocks` is KVTIER_ABSENT if no agent answered in time. `held` may be NULL. */
int kvtier_submit_delete(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                         int32_t timeout_ms, uint64_t* held, uint64_t tag);
int kvtier_submit_prefetch_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                     size_t count, uint32_t flags, int32_t timeout_ms,
                                     uint64_t tag);

enum { KVTIER_OP_ADVISE = 11 };
int kvtier_submit_advise(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                         int32_t timeout_ms, uint64_t tag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_SEQUENCES_H_ */
