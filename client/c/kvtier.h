/* kvtier.h: the worker's client as a C library, libkvtier_client.so.
 *
 * A worker asks its node's agent for the longest prefix of a sequence that the node has, reads
 * the blocks where they lie in shared memory, and puts blocks that it computed. The
 * agent may be absent, slow or killed at any moment: then every call is a miss within
 * its timeout, and the client reconnects by itself.
 *
 * Conventions
 *  - Times are milliseconds. A call ends by its timeout: KVTIER_DEFAULT_TIMEOUT, or 60000 at most.
 *    With a timeout of 0 a call waits for no block, disk or node: it returns what is here now, and
 *    the agent has 20 ms to answer. A negative timeout is KVTIER_INVALID.
 *  - Functions return 0 or a count on success, and a negative KVTIER_* on error. A miss is a
 *    success with a count of 0.
 *  - Strings are NUL-terminated UTF-8. The library reads pointers passed in during the call
 *    only. A NULL pointer where one is needed is KVTIER_INVALID.
 *  - Every handle has one owner and is given back exactly once.
 *  - Functions that take a kvtier_client* may be called from any thread, and kvtier_close() is
 *    the last call. A kvtier_hit, kvtier_put or kvtier_kv is used by one thread at a time.
 *  - fork(): the client stays with the parent. In the child, calls are misses or errors for
 *    ever, with clients opened there too; hits read as zeros and kvtier_hit_valid() returns 0.
 *    Open the first client after the fork, or start the child by exec.
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

/* Version of this ABI. Until the first release the ABI may change without a new number. */
#define KVTIER_ABI_VERSION 1
/* Returns the library's version. A program needs a library of its own version or a later one. */
uint32_t kvtier_abi_version(void);

enum {
  KVTIER_OK = 0,
  KVTIER_INVALID = -1,   /* An argument is not valid; kvtier_last_error() names it. */
  KVTIER_AGAIN = -2,     /* KVTIER_MAX_SUBMITTED calls are outstanding: poll, then retry. */
  KVTIER_EXHAUSTED = -3, /* A limit that polling does not lift, such as 16 spaces. */
  KVTIER_ABSENT = -4,    /* No agent answered, and the call does not report this as a miss. */
  KVTIER_INTERNAL = -5,  /* Out of memory. */
  KVTIER_CODEC = -6,     /* kvtier_encode(), kvtier_decode() only; see there. */
  KVTIER_DAMAGED = -7,   /* kvtier_copy_out(), kvtier_kv_swap_in() only: bytes are damaged. */
  KVTIER_ENDED = -8      /* kvtier_copy_out() only: the lease or the session ended. */
};

/* Returns the text of the calling thread's latest error, valid until its next; "": none yet. */
const char* kvtier_last_error(void);

#define KVTIER_DEFAULT_TIMEOUT INT32_MAX /* Stands for the client's default_timeout_ms. */
#define KVTIER_MAX_KEYS 8192             /* Keys in one call, at most. */
#define KVTIER_MAX_SUBMITTED 256         /* Submitted calls not yet polled, at most. */

typedef struct kvtier_client kvtier_client; /* One worker's client. */
typedef struct kvtier_hit kvtier_hit;       /* Blocks leased to this client, to read. */
typedef struct kvtier_put kvtier_put;       /* Slots reserved for this client, to write. */
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
  kvtier_bytes tenant_secret;  /* Proves the tenant; never sent. size 0: the open tenant. */
  uint32_t default_timeout_ms; /* 0: 2000. */
  uint32_t connect_timeout_ms; /* For one try to connect; kvtier_open() waits for one. 0: 1000. */
  const char* group;           /* Share group whose blocks to use; NULL: the tenant's own blocks. */
} kvtier_options;

/* Opens a client into *client, to be given back by kvtier_close(). Succeeds without an
 * agent. KVTIER_INVALID names the option. */
int kvtier_open(const kvtier_options* options, kvtier_client** client);
/* Ends the session, cancels submitted calls, and frees completions that were not polled. Hits and
 * puts may outlive the client: they are not valid then, but must be given back. NULL is ignored. */
void kvtier_close(kvtier_client* client);

/* Returns 1 while the client is connected to the agent, otherwise 0. */
int kvtier_connected(kvtier_client* client);
/* Makes an empty call; returns KVTIER_OK or KVTIER_ABSENT. A timeout of 0 is KVTIER_INVALID. */
int kvtier_ping(kvtier_client* client, int32_t timeout_ms);
/* Copies the text of the latest error in talking to the agent, which calls report as misses only;
 * "" if there was none. The copy ends in NUL if size > 0. Returns the text's length without NUL,
 * which is `size` or more if it was cut. */
size_t kvtier_agent_error(kvtier_client* client, char* text, size_t size);

typedef struct {
  size_t struct_size;
  uint32_t connected; /* 0 or 1. */
  /* 0: closed, or skipping only calls of less than 10 ms. 1: open. 2: half-open. */
  uint32_t breaker;
  uint64_t sessions;      /* Sessions opened so far. */
  uint64_t calls;         /* Calls sent to the agent. */
  uint64_t calls_failed;  /* Calls not answered in time. */
  uint64_t calls_skipped; /* Calls not sent: no agent, or the breaker is open. */
  uint64_t onboarded_blocks;
  uint64_t missed_blocks;
  uint64_t committed_blocks;
  uint64_t unwritten_blocks; /* Slots that a commit gave back, because they were not taken. */
  uint64_t damaged_blocks;   /* Onboarded blocks whose bytes did not match their sums. */
} kvtier_stats;
int kvtier_get_stats(kvtier_client* client, kvtier_stats* stats);

/* ---- Spaces ------------------------------------------------------------------- */

/* Properties that compatible blocks share. Texts are 1..256 bytes; lora may be NULL or "". */
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
  uint64_t block_bytes;                  /* Size of one stored block; 1..67108864. */
  const char* codec;                     /* NULL: "raw". For others see "Codecs". */
  uint32_t any_length; /* 1: blocks have lengths of their own, see kvtier_sequence.lengths. */
} kvtier_space_spec;

/* Registers a space and writes its handle to *space. Works without an agent. KVTIER_INVALID names
 * the field; KVTIER_EXHAUSTED: the client has 16 spaces. */
int kvtier_register_space(kvtier_client* client, const kvtier_space_spec* spec,
                          kvtier_space* space);
/* Forgets a space, to make room for another; its hits, puts and blocks stay. Never waits. */
int kvtier_unregister_space(kvtier_client* client, kvtier_space space);

/* ---- Calls that wait: one message to the agent each -------------------------------
 * `keys` are `count` engine keys of 8..64 bytes in prefix order, KVTIER_MAX_KEYS at most. */

enum { KVTIER_GPU = 0, KVTIER_HOST = 1, KVTIER_DISK = 2, KVTIER_PEER = 3 };
enum { KVTIER_LOCAL_ONLY = 1 }; /* A flag: ask no other node. */

/* Answers of kvtier_residences() for a key, besides KVTIER_GPU, KVTIER_HOST and KVTIER_DISK. */
enum {
  KVTIER_NOT_HERE = 4, /* No tier of this node has the block. */
  KVTIER_PERHAPS = 5   /* Only the agent knows. */
};
/* Looks keys up in this node's shared table, without a call to the agent: residences[i] gets the
 * nearest tier that has keys[i], KVTIER_NOT_HERE or KVTIER_PERHAPS. The keys may come in any order.
 * The answer is a guess; only kvtier_onboard() makes sure. Never waits. Without an agent every key
 * is KVTIER_NOT_HERE. */
int kvtier_residences(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                      size_t count, uint8_t* residences);
/* Looks up a run in the same table and returns how many leading keys are not KVTIER_NOT_HERE. */
int64_t kvtier_resident_run(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                            size_t count);

/* Returns how many leading blocks are probably there, on this node or another; only an onboard
 * makes sure. *local_blocks (may be NULL) gets how many of them are on this node. */
int64_t kvtier_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                     size_t count, uint32_t flags, int32_t timeout_ms, uint64_t* local_blocks);

/* Brings the longest run it can within the timeout to `target` (KVTIER_HOST or KVTIER_GPU) and
 * leases it. Returns the run's length; *hit gets its blocks, or NULL if the length is 0. */
int64_t kvtier_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                       size_t count, int target, uint32_t flags, int32_t timeout_ms,
                       kvtier_hit** hit);

/* Reserves a slot for each key that the node neither has nor is being given. `parent` is the key
 * before keys[0]; NULL or size 0: a root. Returns how many slots were reserved; *put gets all
 * `count` entries, or NULL when no slot was reserved, for whatever reason. */
int64_t kvtier_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                       const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                       kvtier_put** put);

/* Does the same, but *put gets all `count` entries whenever the agent answered, also if no slot
 * was reserved: kvtier_put_state() says for each key why. NULL: no agent answered in time. */
int64_t kvtier_reserve_entries(kvtier_client* client, kvtier_space space,
                               const kvtier_bytes* parent, const kvtier_bytes* keys, size_t count,
                               int target, int32_t timeout_ms, kvtier_put** put);

/* Asks for blocks to be brought to host memory. Returns how many are there or coming. */
int64_t kvtier_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms);

/* ---- Hits: read, then ask whether it was valid --------------------------------- */

size_t kvtier_hit_count(const kvtier_hit* hit);
/* Writes to *bytes where block `index` of the run lies, in memory that stays mapped until
 * kvtier_release_hits(), also if the agent dies; and to *from (may be NULL) where the block was
 * found, KVTIER_GPU to KVTIER_PEER. KVTIER_INVALID: index >= kvtier_hit_count(). */
int kvtier_hit_block(const kvtier_hit* hit, size_t index, kvtier_bytes* bytes, int* from);
/* Returns 1 if all bytes that were read so far were those of the blocks; 0: do not use them. Call
 * it when the copy is complete, an asynchronous one included. */
int kvtier_hit_valid(const kvtier_hit* hit);
/* Ends the leases of `count` hits and frees them; NULL entries are ignored. Never blocks. */
void kvtier_release_hits(kvtier_hit* const* hits, size_t count);

/* ---- Puts: take and write slots, then commit --------------------------------------
 * kvtier_put_slot() takes the slot of an entry. kvtier_commit() publishes the slots that were
 * taken, whatever is in them, and gives the others back: so fill each slot that you take, or give
 * it back by kvtier_give_back(). */

/* States of an entry. A program treats one that it does not know as KVTIER_NO_ROOM. */
enum {
  KVTIER_RESERVED = 0, /* Write the slot, then commit. */
  KVTIER_PRESENT = 1,  /* Cached already. */
  KVTIER_NO_ROOM = 2,  /* No block could be evicted for it. */
  KVTIER_PENDING = 3,  /* A worker is putting it. If that worker gives up, nobody stores it. */
  KVTIER_NO_STORE = 4  /* Its request is not to be stored: kvtier_sequence.no_store. */
};

size_t kvtier_put_count(const kvtier_put* put);
/* Takes the slot of entry `index`, to be written: *data and *size are its bytes, NULL and 0
 * unless KVTIER_RESERVED is returned. Otherwise returns KVTIER_PRESENT, KVTIER_NO_ROOM,
 * KVTIER_PENDING, KVTIER_NO_STORE or KVTIER_INVALID. */
int kvtier_put_slot(const kvtier_put* put, size_t index, void** data, size_t* size);
/* Returns what kvtier_put_slot() returns, but does not take the slot. */
int kvtier_put_state(const kvtier_put* put, size_t index);
/* Publishes the slots that were taken, gives the others back, and frees `put`, whose slots
 * must not be touched again. Returns how many blocks were published. */
int64_t kvtier_commit(kvtier_put* put);
/* Commits as kvtier_commit() does, for GPU slots whose bytes are complete when the worker's step
 * `step` has ended: the agent waits for its end. 0: they are complete now. */
int64_t kvtier_commit_step(kvtier_put* put, uint64_t step);
/* Commits as kvtier_commit_step() does, then waits until each block is on disk or will not be,
 * `timeout_ms` at most. Returns how many are on disk. The others are published all the same: the
 * write policy refused them, a disk failed, or time was up. KVTIER_INVALID: `put` stays yours. */
int64_t kvtier_commit_durable(kvtier_put* put, uint64_t step, int32_t timeout_ms);
/* Begins the worker's next step, for a worker whose own threads compute in slots of the GPU pool,
 * before they touch any. Slots that are released during the step are used again only after its end.
 * Returns the step's number; 0: the agent keeps no steps of this worker. */
int64_t kvtier_begin_step(kvtier_client* client);
/* Tells the agent that `step` and all steps before it have ended. */
int kvtier_end_step(kvtier_client* client, uint64_t step);
/* Gives back the slots of `count` puts and frees them; NULL entries are ignored. Never blocks. */
void kvtier_cancel_puts(kvtier_put* const* puts, size_t count);

/* Gives back the slot of entry `index` alone, whose state becomes KVTIER_NO_ROOM. KVTIER_INVALID:
 * index >= kvtier_put_count(). Never blocks. */
int kvtier_give_back(kvtier_put* put, size_t index);

/* ---- Codecs: smaller blocks --------------------------------------------------------
 * In a space whose codec is "fp8_e4m3", "int8" or "packed_exponents" (lossless), a worker encodes
 * its blocks into slots and decodes hits, on the CPU, in its own thread. Codecs are for dtype
 * "bfloat16" and the layouts "layer,kv,token,head,dim" and "layer,token,head,dim". */

typedef struct kvtier_codec kvtier_codec; /* Any number of threads may use one. */

/* Sizes of one block. */
typedef struct {
  size_t struct_size;
  uint64_t raw_bytes; /* The worker's block: bf16, in the order of the layout. */
  /* The two values that block_bytes may have. With encoded_bytes, a block that the codec does
   * not make smaller (NaN, infinity, exponents that do not pack) cannot be stored. With
   * max_encoded_bytes it is stored raw, and the other blocks take as much room as a raw one. */
  uint64_t encoded_bytes;
  uint64_t max_encoded_bytes;
} kvtier_codec_sizes;

/* Fills *sizes for the codec and shape of `spec`, not reading its block_bytes. KVTIER_INVALID names
 * the field. */
int kvtier_get_codec_sizes(const kvtier_space_spec* spec, kvtier_codec_sizes* sizes);

/* Opens the codec of `spec` into *codec, to be given back by kvtier_close_codec().
 * KVTIER_INVALID names the field, or the codec is "raw". */
int kvtier_open_codec(const kvtier_space_spec* spec, kvtier_codec** codec);
/* Frees the codec. NULL is ignored. */
void kvtier_close_codec(kvtier_codec* codec);

/* Encodes a raw block into a slot. Both buffers must begin at multiples of 16, as slots do. Returns
 * 1, or 0 if the block was stored raw. KVTIER_INVALID names the size or the alignment.
 * KVTIER_CODEC: the block cannot be stored: kvtier_give_back() its slot. */
int kvtier_encode(const kvtier_codec* codec, const void* raw, size_t raw_size, void* slot,
                  size_t slot_size);
/* Decodes a block of a hit. Call kvtier_hit_valid() afterwards, as after any copy. KVTIER_INVALID
 * names the size or the alignment. KVTIER_CODEC: the block is no encoding of this space. */
int kvtier_decode(const kvtier_codec* codec, const void* block, size_t block_size, void* raw,
                  size_t raw_size);

/* ---- Calls that do not wait -------------------------------------------------------
 * The result of a call comes as a completion with the caller's `tag`, by the call's timeout. These
 * return KVTIER_OK; or KVTIER_INVALID or KVTIER_AGAIN, and then no completion comes. */

int kvtier_submit_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag);
int kvtier_submit_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                          size_t count, int target, uint32_t flags, int32_t timeout_ms,
                          uint64_t tag);
int kvtier_submit_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                          const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                          uint64_t tag);
/* Submits kvtier_reserve_entries(). */
int kvtier_submit_reserve_entries(kvtier_client* client, kvtier_space space,
                                  const kvtier_bytes* parent, const kvtier_bytes* keys,
                                  size_t count, int target, int32_t timeout_ms, uint64_t tag);
int kvtier_submit_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                           size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag);
/* Submits kvtier_commit(); takes `put`, which `client` reserved, if it returns KVTIER_OK. */
int kvtier_submit_commit(kvtier_client* client, kvtier_put* put, uint64_t tag);
/* Submits kvtier_commit_step(), as kvtier_submit_commit() does. */
int kvtier_submit_commit_step(kvtier_client* client, kvtier_put* put, uint64_t step, uint64_t tag);
/* Submits kvtier_commit_durable(), as kvtier_submit_commit() does. */
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

/* The end of a submitted call. Its size is fixed: a later version adds functions, not fields. */
typedef struct {
  uint64_t tag;
  int32_t op;            /* KVTIER_OP_*. */
  uint32_t sequence;     /* For KVTIER_OP_ONBOARD_PART (kvtier_parts.h); otherwise 0. */
  int64_t blocks;        /* Result that the waiting call would have returned. */
  uint64_t local_blocks; /* Set for KVTIER_OP_MATCH. */
  kvtier_hit* hit;       /* KVTIER_OP_ONBOARD, yours now; NULL: a miss. */
  kvtier_put* put;       /* KVTIER_OP_RESERVE, yours now; NULL: no slot.
                          * KVTIER_OP_RESERVE_ENTRIES, yours now; NULL: no answer. */
} kvtier_completion;

/* Returns a descriptor for poll, epoll or an event loop, readable while completions wait. The
 * client owns it: do not read, write or close it. A forked child calls this function again. */
int kvtier_event_fd(kvtier_client* client);
/* Takes up to `count` completions, oldest first, and never waits. Returns how many. */
int64_t kvtier_poll(kvtier_client* client, kvtier_completion* completions, size_t count);

/* ---- KV memory in the GPU pool ------------------------------------------------------
 * A kvtier_kv keeps a worker's sequences in slots of the node's GPU pool that the agent granted to
 * it, as block tables. They grow on demand, forks share blocks and copy before they write, and
 * whole sequences are swapped out to the agent's host memory and back in. It is for pools that the
 * host can touch. Only kvtier_take_kv() and the two swaps call the agent. KVTIER_INVALID, unless
 * said otherwise: there is no such sequence, or it is swapped out. An error changes nothing. */

typedef struct {
  size_t struct_size;
  uint32_t slots;        /* Slots that are wanted; 1 or more. */
  uint32_t block_tokens; /* The space's tokens_per_block; 1 or more. */
} kvtier_kv_options;

/* Takes slots for blocks of this space into *kv, to be given back by kvtier_release_kv().
 * Returns how many there are, fewer than wanted when there is no room for more. 0, and
 * *kv is NULL: no agent, no pool for this space, or no room. */
int64_t kvtier_take_kv(kvtier_client* client, kvtier_space space, const kvtier_kv_options* options,
                       kvtier_kv** kv);
/* Gives back the slots and frees the sequences. Never blocks. NULL is ignored. */
void kvtier_release_kv(kvtier_kv* kv);
/* Returns 1 if the slots are still granted to this worker. 0: their session ended, another worker
 * may have them, and results computed since kvtier_kv_valid() last returned 1 must not be used. */
int kvtier_kv_valid(const kvtier_kv* kv);
/* Writes where the pool is mapped until kvtier_release_kv(), also if the agent dies: slot n lies at
 * *data + n * *slot_bytes. Only the slots of this kv's sequences may be touched. */
int kvtier_kv_memory(const kvtier_kv* kv, void** data, size_t* size, uint64_t* slot_bytes);

/* Opens an empty sequence and writes its id to *sequence. Sequences stand in one line, by higher
 * priority, then by age (opened or forked earlier). The last in line is swapped out first. */
int kvtier_kv_open(kvtier_kv* kv, int32_t priority, uint64_t* sequence);
/* Changes a sequence's priority, also while it is swapped out. A fork has its parent's priority. */
int kvtier_kv_set_priority(kvtier_kv* kv, uint64_t sequence, int32_t priority);
/* Makes room for `tokens` more, 1 or more, in zeroed slots; a shared block is copied first.
 * KVTIER_EXHAUSTED: too few slots; swap out kvtier_kv_victims(), then retry. */
int kvtier_kv_append(kvtier_kv* kv, uint64_t sequence, uint32_t tokens);
/* Opens a sequence with the same blocks and writes its id to *fork. */
int kvtier_kv_fork(kvtier_kv* kv, uint64_t sequence, uint64_t* fork);
/* Forgets all but the first `tokens`; KVTIER_INVALID also if the sequence has fewer. */
int kvtier_kv_truncate(kvtier_kv* kv, uint64_t sequence, uint64_t tokens);
int kvtier_kv_free(kvtier_kv* kv, uint64_t sequence);
/* Moves sequences out of the pool into the agent's host memory, all together. KVTIER_EXHAUSTED: the
 * tenant's host memory has no room. KVTIER_ABSENT, here and of kvtier_kv_swap_in(): no agent. */
int kvtier_kv_swap_out(kvtier_kv* kv, const uint64_t* sequences, size_t count);
/* Moves one of them back, whole. KVTIER_INVALID: it is not swapped out, or another that is swapped
 * out is ahead of it in line; kvtier_last_error() names that one. KVTIER_EXHAUSTED: too few free
 * slots. KVTIER_DAMAGED: blocks of it are lost for ever: free it. */
int kvtier_kv_swap_in(kvtier_kv* kv, uint64_t sequence);
/* Returns 1 and writes to *sequence the one that may come back first; 0: none is swapped out. */
int64_t kvtier_kv_next_return(const kvtier_kv* kv, uint64_t* sequence);
/* Finds sequences to swap out so that `beneficiary` gets `slots` more: writes `count` at most and
 * returns how many there are. KVTIER_EXHAUSTED: those after `beneficiary` have too few slots. */
int64_t kvtier_kv_victims(const kvtier_kv* kv, uint64_t beneficiary, size_t slots,
                          uint64_t* sequences, size_t count);
/* Writes the slot of each block, `count` of them at most, and returns how many blocks there are. */
int64_t kvtier_kv_slots(const kvtier_kv* kv, uint64_t sequence, uint32_t* slots, size_t count);

typedef struct {
  size_t struct_size;
  uint64_t granted_slots;
  uint64_t free_slots;
  uint64_t swapped_bytes;
  uint64_t copied_blocks; /* Shared blocks that were copied before a write, so far. */
  uint64_t room_tokens;   /* Tokens that the sequences' blocks have room for. */
  uint64_t unused_tokens; /* Tokens of that room that are empty. */
} kvtier_kv_stats;
int kvtier_get_kv_stats(const kvtier_kv* kv, kvtier_kv_stats* stats);

/* ---- Keys from tokens ---------------------------------------------------------------
 * These functions compute an engine's keys, or keys for one that has none: 32 bytes for each full
 * block, chained over all blocks before it. client/token_keys.h says what is hashed. */

enum { KVTIER_KEYS_PLAIN = 0, KVTIER_KEYS_VLLM = 1 /* "sha256_cbor". */ };

/* One of vLLM's extra keys. A tuple has the next `integer` entries, none of which is a tuple. */
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
  kvtier_bytes bytes; /* Bytes, or a text in UTF-8. */
} kvtier_extra_key;

typedef struct {
  size_t struct_size;
  uint32_t form;             /* KVTIER_KEYS_*. */
  uint32_t tokens_per_block; /* 1 or more. */
  kvtier_bytes parent;       /* Key of the block before the first token; size 0: none. */
  kvtier_bytes extra;        /* KVTIER_KEYS_PLAIN: hashed with each block; size 0: nothing. */
  const char* seed; /* KVTIER_KEYS_VLLM: vLLM's PYTHONHASHSEED; NULL: its default of 2026. */
  const kvtier_extra_key* extra_keys; /* KVTIER_KEYS_VLLM: hashed with each block. */
  size_t extra_count;
} kvtier_token_hash;

/* Hashes `count` token ids, int32_t (token_bytes 4) or int64_t (8), into keys[n * 32], which has
 * room for `capacity` keys. Returns how many: count / tokens_per_block. KVTIER_INVALID names the
 * value that is not valid: a token id, a size, too little room. Calls no agent. */
int64_t kvtier_token_keys(const kvtier_token_hash* hash, const void* tokens, size_t count,
                          size_t token_bytes, void* keys, size_t capacity);

#pragma GCC visibility pop
#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KVTIER_H_ */
