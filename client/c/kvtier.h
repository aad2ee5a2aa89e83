/* kvtier.h: the worker's client as a C library, libkvtier_client.so.
 *
 * A worker asks its node's agent for the longest cached prefix of a sequence, reads
 * the blocks where they lie in shared memory, and puts blocks that it computed. The
 * agent may be absent, slow or killed at any moment: then every call is a miss, inside
 * its timeout, and the client finds the agent again by itself.
 *
 * Conventions
 *  - Times are milliseconds. A call ends by its timeout, KVTIER_DEFAULT_TIMEOUT or 60000 at most.
 * 0: it waits for no block, disk or node and says what is here now, for which the agent has 20 ms.
 *    A negative one is KVTIER_INVALID.
 *  - Functions return 0 or a count on success, and one of KVTIER_* (negative) on
 *    error. A miss is a success with a count of 0.
 *  - Strings are NUL-terminated UTF-8. Pointers passed in are read during the call
 *    only. A NULL pointer where one is needed is KVTIER_INVALID.
 *  - Every handle has one owner and is given back exactly once.
 *  - Everything taking a kvtier_client* may be called from any thread. One kvtier_hit,
 *    kvtier_put or kvtier_kv is used by one thread at a time. kvtier_close() comes last.
 *  - fork(): the client stays the parent's. In the child, functions are misses or errors for
 *    ever, of clients opened there too; hits read as zeros and kvtier_hit_valid() says 0.
 *    Open clients after the fork.
 *  - Structs begin with struct_size, which the caller sets to sizeof(the struct): a
 *    library newer than the caller reads and writes no more than that.
 */
#ifndef KVTIER_H_
#define KVTIER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* It may change without a new number until the first release. */
#define KVTIER_ABI_VERSION 1
/* The library's version: a program runs with a library of its own version or a later one. */
uint32_t kvtier_abi_version(void);

enum {
  KVTIER_OK = 0,
  KVTIER_INVALID = -1,   /* An argument cannot be; kvtier_last_error() names it. */
  KVTIER_AGAIN = -2,     /* KVTIER_MAX_SUBMITTED calls are outstanding: poll, then retry. */
  KVTIER_EXHAUSTED = -3, /* A limit that polling does not lift, such as 16 spaces. */
  KVTIER_ABSENT = -4,    /* No agent, or it does not answer, where that is no miss. */
  KVTIER_INTERNAL = -5,  /* Out of memory. */
  KVTIER_CODEC = -6,     /* kvtier_encode(), kvtier_decode() only: they say what it means. */
  KVTIER_DAMAGED = -7,   /* kvtier_copy_out(), kvtier_kv_swap_in() only: bytes are not theirs. */
  KVTIER_ENDED = -8      /* kvtier_copy_out() only: the lease or the session ended. */
};

/* Why the thread's latest call that failed did, until its next failure; "": none has. */
const char* kvtier_last_error(void);

#define KVTIER_DEFAULT_TIMEOUT INT32_MAX /* The client's default_timeout_ms. */
#define KVTIER_MAX_KEYS 8192             /* Of one call. */
#define KVTIER_MAX_SUBMITTED 256         /* Submitted calls whose completion was not polled. */

typedef struct kvtier_client kvtier_client; /* One worker's client. */
typedef struct kvtier_hit kvtier_hit;       /* Blocks leased to us, to read. */
typedef struct kvtier_put kvtier_put;       /* Slots reserved for us, to write. */
typedef struct kvtier_kv kvtier_kv;         /* Sequences in slots of the GPU pool. */
typedef uint32_t kvtier_space;              /* A space of one client. */

/* Bytes that the caller owns. */
typedef struct {
  const void* data;
  size_t size;
} kvtier_bytes;

/* ---- Client ------------------------------------------------------------------- */

typedef struct {
  size_t struct_size;
  const char* socket_dir;      /* The agent's --socket_dir. */
  const char* tenant;          /* NULL: "default". */
  kvtier_bytes tenant_secret;  /* size 0: the open tenant's. Never sent. */
  uint32_t default_timeout_ms; /* 0: 2000. */
  uint32_t connect_timeout_ms; /* Of one try; kvtier_open() waits for the first. 0: 1000. */
  const char* group;           /* Share group whose blocks to use; NULL: the tenant's own blocks. */
} kvtier_options;

/* Opens a client into *client, to be given back by kvtier_close(). Succeeds without an
 * agent. KVTIER_INVALID names the option. */
int kvtier_open(const kvtier_options* options, kvtier_client** client);
/* Hangs up, cancels submitted calls, frees completions that were not polled with what they hold.
 * Hits and puts may outlive it: not valid, still to be given back. NULL is ignored. */
void kvtier_close(kvtier_client* client);

/* 1 while the agent's socket stands, otherwise 0. */
int kvtier_connected(kvtier_client* client);
/* One empty call to the agent: KVTIER_OK or KVTIER_ABSENT. KVTIER_INVALID: a timeout of 0, too. */
int kvtier_ping(kvtier_client* client, int32_t timeout_ms);
/* Copies the latest trouble with the agent, which calls show as misses only; "" when
 * there was none. Ends in NUL when size > 0. Returns the text's length without NUL,
 * which is `size` or more when it was cut. */
size_t kvtier_agent_error(kvtier_client* client, char* text, size_t size);

typedef struct {
  size_t struct_size;
  uint32_t connected; /* 0 or 1. */
  uint32_t breaker;  /* 0 closed, or shut to calls of less than 10 ms alone; 1 open, 2 half-open. */
  uint64_t sessions; /* Opened so far. */
  uint64_t calls;    /* Sent to the agent. */
  uint64_t calls_failed;  /* Not answered in time. */
  uint64_t calls_skipped; /* Not sent: no agent, or the breaker is open. */
  uint64_t onboarded_blocks;
  uint64_t missed_blocks;
  uint64_t committed_blocks;
  uint64_t unwritten_blocks; /* Slots that a commit gave back, because nobody took them. */
  uint64_t damaged_blocks;   /* Onboarded, and not what their sums say. */
} kvtier_stats;
int kvtier_get_stats(kvtier_client* client, kvtier_stats* stats);

/* ---- Spaces ------------------------------------------------------------------- */

/* What makes blocks compatible. Texts are 1..256 bytes; lora may be NULL or "". */
typedef struct {
  size_t struct_size;
  const char* model;
  const char* weights_digest;
  const char* lora;
  const char* dtype;
  const char* layout;
  uint32_t layers, kv_heads, head_dim, tokens_per_block;
  uint32_t tensor_rank, tensor_size;     /* rank < size. */
  uint32_t pipeline_rank, pipeline_size; /* rank < size. */
  uint64_t block_bytes;                  /* Of one stored block; 1..67108864. */
  const char* codec;                     /* NULL: "raw". Others are under "Codecs". */
  uint32_t any_length; /* 1: blocks have lengths of their own, see kvtier_sequence.lengths. */
} kvtier_space_spec;

/* Names a space into *space. Works without an agent. KVTIER_INVALID names the field;
 * KVTIER_EXHAUSTED at 16 spaces. */
int kvtier_register_space(kvtier_client* client, const kvtier_space_spec* spec,
                          kvtier_space* space);
/* Makes room for another space; its hits and puts stay, and its blocks stay cached. Never waits. */
int kvtier_unregister_space(kvtier_client* client, kvtier_space space);

/* ---- Calls that wait: one message to the agent each -------------------------------
 * `keys` are `count` engine keys of 8..64 bytes in prefix order, KVTIER_MAX_KEYS at most. */

enum { KVTIER_GPU = 0, KVTIER_HOST = 1, KVTIER_DISK = 2, KVTIER_PEER = 3 };
enum { KVTIER_LOCAL_ONLY = 1 }; /* A flag: ask no other node. */

/* What kvtier_residences() says of a key, beside KVTIER_GPU, KVTIER_HOST and KVTIER_DISK. */
enum {
  KVTIER_NOT_HERE = 4, /* No tier of this node has the block. */
  KVTIER_PERHAPS = 5   /* Only the agent knows. */
};
/* Asks this node's table, without a call to the agent: residences[i] gets the nearest tier that
 * has keys[i], KVTIER_NOT_HERE or KVTIER_PERHAPS. The keys may come in any order. A guess, which
 * kvtier_onboard() turns into a promise. Never waits. Without an agent nothing is here. */
int kvtier_residences(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                      size_t count, uint8_t* residences);
/* The same of a run: returns how many leading keys are not KVTIER_NOT_HERE. */
int64_t kvtier_resident_run(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                            size_t count);

/* Returns how many leading blocks are cached somewhere; a guess. *local_blocks (may be
 * NULL) gets how many of them are on this node. */
int64_t kvtier_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                     size_t count, uint32_t flags, int32_t timeout_ms, uint64_t* local_blocks);

/* Brings the longest run it can to `target` (KVTIER_HOST or KVTIER_GPU) in time and
 * leases it. Returns its length; *hit gets it, or NULL when the length is 0. */
int64_t kvtier_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                       size_t count, int target, uint32_t flags, int32_t timeout_ms,
                       kvtier_hit** hit);

/* Reserves a slot for each key that is neither cached nor being put. `parent` is the key
 * before keys[0]; NULL or size 0: a root. Returns how many slots were reserved; *put gets all
 * `count` entries, or NULL when no slot was reserved, for whatever reason. */
int64_t kvtier_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                       const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                       kvtier_put** put);

/* The same, but *put gets all `count` entries whenever the agent answered, also when no slot
 * was reserved: kvtier_put_state() says of each key why. NULL: no agent answered in time. */
int64_t kvtier_reserve_entries(kvtier_client* client, kvtier_space space,
                               const kvtier_bytes* parent, const kvtier_bytes* keys, size_t count,
                               int target, int32_t timeout_ms, kvtier_put** put);

/* Asks for blocks to be brought to host memory. Returns how many are there or coming. */
int64_t kvtier_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms);

/* ---- Hits: read, then ask whether it was valid --------------------------------- */

size_t kvtier_hit_count(const kvtier_hit* hit);
/* Block `index` of the run: its bytes (valid memory until kvtier_release_hits(), also
 * when the agent dies) and where it was, KVTIER_GPU to KVTIER_PEER. `from` may be NULL.
 * KVTIER_INVALID: index >= count. */
int kvtier_hit_block(const kvtier_hit* hit, size_t index, kvtier_bytes* bytes, int* from);
/* 1: all that was read so far was what it was said to be. 0: do not use it. To be asked
 * when the copy is complete, an asynchronous one included. */
int kvtier_hit_valid(const kvtier_hit* hit);
/* Ends the leases of `count` hits and frees them; NULL entries are ignored. Never
 * blocks. */
void kvtier_release_hits(kvtier_hit* const* hits, size_t count);

/* ---- Puts: take and write slots, then commit --------------------------------------
 * kvtier_put_slot() takes the slot of an entry. kvtier_commit() publishes the slots that were
 * taken, whatever is in them, and gives the others back: so fill what you take, or give it
 * back by kvtier_give_back(). */

/* What an entry is; one that a program does not know is to it KVTIER_NO_ROOM. */
enum {
  KVTIER_RESERVED = 0, /* Write the slot, then commit. */
  KVTIER_PRESENT = 1,  /* Cached already. */
  KVTIER_NO_ROOM = 2,  /* Nothing could be evicted for it. */
  KVTIER_PENDING = 3,  /* A worker is putting it. If it gives up, nobody stores it. */
  KVTIER_NO_STORE = 4  /* Its request is not to be kept: kvtier_sequence.no_store. */
};

size_t kvtier_put_count(const kvtier_put* put);
/* Takes the slot of entry `index`, to be written: *data and *size are its bytes, NULL and 0
 * unless KVTIER_RESERVED is returned. Otherwise returns KVTIER_PRESENT, KVTIER_NO_ROOM,
 * KVTIER_PENDING, KVTIER_NO_STORE or KVTIER_INVALID. */
int kvtier_put_slot(const kvtier_put* put, size_t index, void** data, size_t* size);
/* The same answer, and nothing is taken. */
int kvtier_put_state(const kvtier_put* put, size_t index);
/* Publishes the slots that were taken, gives the others back, and frees `put`, whose slots
 * must not be touched again. Returns how many blocks were published. */
int64_t kvtier_commit(kvtier_put* put);
/* The same, of bytes in GPU slots that are complete when our step `step` has ended: the
 * agent waits for its end. 0: they are complete now. */
int64_t kvtier_commit_step(kvtier_put* put, uint64_t step);
/* As kvtier_commit_step(), but waits until it is known of each block whether it is on disk,
 * `timeout_ms` at most, and returns how many are. The others are published all the same: the
 * write policy refused them, a disk failed, or time was up. KVTIER_INVALID: `put` stays yours. */
int64_t kvtier_commit_durable(kvtier_put* put, uint64_t step, int32_t timeout_ms);
/* Begins our next step, for a worker whose own threads compute in slots of the GPU pool,
 * before they touch any. What is released meanwhile is used again only when the step has
 * ended. Returns its number; 0: the agent keeps no steps of ours. */
int64_t kvtier_begin_step(kvtier_client* client);
/* `step` and all before it have ended. */
int kvtier_end_step(kvtier_client* client, uint64_t step);
/* Gives back the slots of `count` puts unpublished and frees them; NULL entries are
 * ignored. Never blocks. */
void kvtier_cancel_puts(kvtier_put* const* puts, size_t count);

/* Gives back the slot of entry `index` alone; kvtier_put_slot() says KVTIER_NO_ROOM from
 * then on, and kvtier_commit() leaves it out. KVTIER_INVALID: index >= count. Never
 * blocks. */
int kvtier_give_back(kvtier_put* put, size_t index);

/* ---- Codecs: smaller blocks --------------------------------------------------------
 * In a space whose codec is "fp8_e4m3", "int8" or "packed_exponents" (lossless),
 * encode into slots and decode out of hits. For dtype "bfloat16" and the layouts
 * "layer,kv,token,head,dim" and "layer,token,head,dim". On the CPU, in the caller. */

typedef struct kvtier_codec kvtier_codec; /* Any number of threads may use one. */

/* Bytes of one block. */
typedef struct {
  size_t struct_size;
  uint64_t raw_bytes; /* As the worker has it: bf16, in the order of the layout. */
  /* What block_bytes must be. With encoded_bytes, a block that the codec does not make
   * smaller (NaN, infinity, exponents that do not pack) cannot be stored; with
   * max_encoded_bytes it is stored raw, and nothing is saved for the others. */
  uint64_t encoded_bytes;
  uint64_t max_encoded_bytes;
} kvtier_codec_sizes;

/* Sizes for the codec and shape of `spec`, whose block_bytes is not read. KVTIER_INVALID
 * names the field. */
int kvtier_get_codec_sizes(const kvtier_space_spec* spec, kvtier_codec_sizes* sizes);

/* Opens the codec of `spec` into *codec, to be given back by kvtier_close_codec().
 * KVTIER_INVALID names the field, or the codec is "raw". */
int kvtier_open_codec(const kvtier_space_spec* spec, kvtier_codec** codec);
/* NULL is ignored. */
void kvtier_close_codec(kvtier_codec* codec);

/* Encodes a raw block into a slot. Buffers begin at multiples of 16; slots do. Returns 1,
 * or 0 when the block was stored raw. KVTIER_INVALID names the size or the alignment.
 * KVTIER_CODEC: it cannot be stored: kvtier_give_back() its slot. */
int kvtier_encode(const kvtier_codec* codec, const void* raw, size_t raw_size, void* slot,
                  size_t slot_size);
/* Decodes a block of a hit. To be followed by kvtier_hit_valid(), as any copy. KVTIER_INVALID
 * as above. KVTIER_CODEC: the block is no encoding of this space. */
int kvtier_decode(const kvtier_codec* codec, const void* block, size_t block_size, void* raw,
                  size_t raw_size);

/* ---- Calls that do not wait -------------------------------------------------------
 * As above, but the result comes as a completion with the caller's `tag`, by the call's timeout.
 * Return KVTIER_OK; or KVTIER_INVALID or KVTIER_AGAIN, and then no completion comes. */

int kvtier_submit_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag);
int kvtier_submit_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                          size_t count, int target, uint32_t flags, int32_t timeout_ms,
                          uint64_t tag);
int kvtier_submit_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                          const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                          uint64_t tag);
/* The same, as kvtier_reserve_entries(). */
int kvtier_submit_reserve_entries(kvtier_client* client, kvtier_space space,
                                  const kvtier_bytes* parent, const kvtier_bytes* keys,
                                  size_t count, int target, int32_t timeout_ms, uint64_t tag);
int kvtier_submit_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                           size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag);
/* Takes `put` when it returns KVTIER_OK. `client` must be the one that reserved it. */
int kvtier_submit_commit(kvtier_client* client, kvtier_put* put, uint64_t tag);
/* The same, as kvtier_commit_step(). */
int kvtier_submit_commit_step(kvtier_client* client, kvtier_put* put, uint64_t step, uint64_t tag);
/* The same, as kvtier_commit_durable(). */
int kvtier_submit_commit_durable(kvtier_client* client, kvtier_put* put, uint64_t step,
                                 int32_t timeout_ms, uint64_t tag);

enum {
  KVTIER_OP_MATCH = 0,
  KVTIER_OP_ONBOARD = 1,
  KVTIER_OP_RESERVE = 2,
  KVTIER_OP_COMMIT = 3,
  KVTIER_OP_PREFETCH = 4,
  KVTIER_OP_RESERVE_ENTRIES = 5
};

/* Of fixed size: a later version appends functions, not fields. */
typedef struct {
  uint64_t tag;
  int32_t op;            /* KVTIER_OP_*. */
  uint32_t sequence;     /* KVTIER_OP_ONBOARD_PART (kvtier_parts.h); otherwise 0. */
  int64_t blocks;        /* What the waiting call would have returned. */
  uint64_t local_blocks; /* KVTIER_OP_MATCH. */
  kvtier_hit* hit;       /* KVTIER_OP_ONBOARD, yours now; NULL: a miss. */
  kvtier_put* put;       /* KVTIER_OP_RESERVE, yours now; NULL: no slot.
                          * KVTIER_OP_RESERVE_ENTRIES, yours now; NULL: no answer. */
} kvtier_completion;

/* A descriptor that is readable while completions wait: for poll, epoll or an event
 * loop. It belongs to the client; do not read, write or close it. A forked child asks anew. */
int kvtier_event_fd(kvtier_client* client);
/* Takes up to `count` completions, oldest first, and never waits. Returns how many. */
int64_t kvtier_poll(kvtier_client* client, kvtier_completion* completions, size_t count);

/* ---- KV memory in the GPU pool ------------------------------------------------------
 * A worker's sequences in slots of the node's GPU pool that are its own, as block tables:
 * they grow on demand, forks share blocks and copy before they write, whole sequences are
 * swapped out to the agent's host memory, and back in. For pools that the host can touch.
 * kvtier_take_kv() and the two swaps alone call the agent. KVTIER_INVALID, where nothing else is
 * said: there is no such sequence, or it is swapped out. An error changes nothing. */

typedef struct {
  size_t struct_size;
  uint32_t slots;        /* That are wanted; 1 or more. */
  uint32_t block_tokens; /* As the space has it; 1 or more. */
} kvtier_kv_options;

/* Takes slots for blocks of this space into *kv, to be given back by kvtier_release_kv().
 * Returns how many there are, fewer than wanted when there is no room for more. 0, and
 * *kv is NULL: no agent, no pool for this space, or no room. */
int64_t kvtier_take_kv(kvtier_client* client, kvtier_space space, const kvtier_kv_options* options,
                       kvtier_kv** kv);
/* Never blocks. NULL is ignored. */
void kvtier_release_kv(kvtier_kv* kv);
/* 1: the slots are ours. 0: the session that granted them ended, another worker may have
 * them, and what was computed since kvtier_kv_valid() last was 1 must not be used. */
int kvtier_kv_valid(const kvtier_kv* kv);
/* Slot n lies at *data + n * *slot_bytes; of the pool's *size bytes only our sequences'
 * slots may be touched. Mapped until kvtier_release_kv(), also when the agent dies. */
int kvtier_kv_memory(const kvtier_kv* kv, void** data, size_t* size, uint64_t* slot_bytes);

/* An empty sequence into *sequence. All stand in one line, the higher priority ahead, and of
 * the same priority who was opened or forked earlier: the last is swapped out first. */
int kvtier_kv_open(kvtier_kv* kv, int32_t priority, uint64_t* sequence);
/* Moves it in line, also while it is swapped out. A fork has its parent's priority. */
int kvtier_kv_set_priority(kvtier_kv* kv, uint64_t sequence, int32_t priority);
/* Room for `tokens` more, 1 or more, in zeroed slots; a shared block is copied first.
 * KVTIER_EXHAUSTED: too few slots; swap out kvtier_kv_victims(), then retry. */
int kvtier_kv_append(kvtier_kv* kv, uint64_t sequence, uint32_t tokens);
/* A sequence with the same blocks into *fork. */
int kvtier_kv_fork(kvtier_kv* kv, uint64_t sequence, uint64_t* fork);
/* Forgets all but the first `tokens`; KVTIER_INVALID also when it has fewer. */
int kvtier_kv_truncate(kvtier_kv* kv, uint64_t sequence, uint64_t tokens);
int kvtier_kv_free(kvtier_kv* kv, uint64_t sequence);
/* Out of the pool, together. KVTIER_EXHAUSTED: no room. KVTIER_ABSENT, of both: no agent. */
int kvtier_kv_swap_out(kvtier_kv* kv, const uint64_t* sequences, size_t count);
/* One of them back, whole. KVTIER_INVALID: it is not out, or another that is out is ahead of
 * it; kvtier_last_error() names that one. KVTIER_EXHAUSTED: too few slots to come back.
 * KVTIER_DAMAGED: blocks of it are lost for good: free it. */
int kvtier_kv_swap_in(kvtier_kv* kv, uint64_t sequence);
/* 1, and the one that may come back into *sequence; 0: none is out. */
int64_t kvtier_kv_next_return(const kvtier_kv* kv, uint64_t* sequence);
/* Whom to swap out so that `beneficiary` gets `slots` more: writes `count` of them at most
 * and returns how many there are. KVTIER_EXHAUSTED: nobody of a lower rank has so many. */
int64_t kvtier_kv_victims(const kvtier_kv* kv, uint64_t beneficiary, size_t slots,
                          uint64_t* sequences, size_t count);
/* The slot of each block: writes `count` of them at most and returns how many there are. */
int64_t kvtier_kv_slots(const kvtier_kv* kv, uint64_t sequence, uint32_t* slots, size_t count);

typedef struct {
  size_t struct_size;
  uint64_t granted_slots;
  uint64_t free_slots;
  uint64_t swapped_bytes;
  uint64_t copied_blocks; /* Before a write to a shared block, so far. */
  uint64_t room_tokens;   /* That the sequences' blocks have room for, and of these: */
  uint64_t unused_tokens;
} kvtier_kv_stats;
int kvtier_get_kv_stats(const kvtier_kv* kv, kvtier_kv_stats* stats);

/* ---- Keys from tokens ---------------------------------------------------------------
 * For engines that hand over no keys, or to compute those of one that does: a key of 32 bytes
 * for each full block, chained over all before it. client/token_keys.h says what is hashed. */

enum { KVTIER_KEYS_PLAIN = 0, KVTIER_KEYS_VLLM = 1 /* "sha256_cbor". */ };

/* One of vLLM's extra keys. A tuple has the next `integer` entries of the array as its own; none
 * of these is a tuple. */
enum {
  KVTIER_EXTRA_TEXT = 0,
  KVTIER_EXTRA_BYTES = 1,
  KVTIER_EXTRA_INTEGER = 2,
  KVTIER_EXTRA_NONE = 3,
  KVTIER_EXTRA_TUPLE = 4
};
typedef struct {
  int32_t kind; /* KVTIER_EXTRA_*. */
  uint32_t reserved;
  int64_t integer;
  kvtier_bytes bytes; /* Also of a text, in UTF-8. */
} kvtier_extra_key;

typedef struct {
  size_t struct_size;
  uint32_t form;             /* KVTIER_KEYS_*. */
  uint32_t tokens_per_block; /* 1 or more. */
  kvtier_bytes parent;       /* Key of the block before the first token; size 0: none. */
  kvtier_bytes extra;        /* KVTIER_KEYS_PLAIN: hashed with each block; size 0: nothing. */
  const char* seed;          /* KVTIER_KEYS_VLLM: its PYTHONHASHSEED; NULL: its default of 2026. */
  const kvtier_extra_key* extra_keys; /* KVTIER_KEYS_VLLM: hashed with each block. */
  size_t extra_count;
} kvtier_token_hash;

/* Hashes `count` token ids, int32_t (token_bytes 4) or int64_t (8), into keys[n * 32], which has
 * room for `capacity` keys. Returns how many: count / tokens_per_block. KVTIER_INVALID names the
 * value that cannot be: a token id, a size, too little room. Calls no agent. */
int64_t kvtier_token_keys(const kvtier_token_hash* hash, const void* tokens, size_t count,
                          size_t token_bytes, void* keys, size_t capacity);

#pragma GCC visibility pop
#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KVTIER_H_ */
