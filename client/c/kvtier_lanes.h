/* kvtier_lanes.h: lanes for an inference engine. They copy blocks between the engine's KV tensors
 * and the agent's host memory: tensors in this process's memory on threads of their own, tensors on
 * a GPU by the GPU. The conventions are those of kvtier.h.
 *
 * In a space with a codec, blocks of bf16 are encoded and decoded on the way ("Codecs" in
 * kvtier.h), whatever the layout of the tensors: engines of different layouts share them.
 */
#ifndef KVTIER_LANES_H_
#define KVTIER_LANES_H_

#include <stddef.h>
#include <stdint.h>

#include "kvtier.h"
#include "kvtier_copy.h"
#include "kvtier_sequences.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct kvtier_lanes kvtier_lanes;       /* Lanes over one set of tensors. */
typedef struct kvtier_lane_job kvtier_lane_job; /* One offload or onboard on its way. */

/* Runs of a layer: keys and values have one run each, keys first (APART); or each row has both
 * (FUSED); or rows are those of latent attention (LATENT). */
enum { KVTIER_AXES_APART = 0, KVTIER_AXES_FUSED = 1, KVTIER_AXES_LATENT = 2 };
/* Order of the rows inside a run: NHD or HND. */
enum { KVTIER_TOKEN_HEAD = 0, KVTIER_HEAD_TOKEN = 1 };

/* A place in one of the tensors. */
typedef struct {
  uint32_t tensor;
  uint32_t reserved; /* 0. */
  uint64_t offset;   /* From the tensor's first byte. */
} kvtier_tensor_place;

/* Where the engine's KV blocks are. A block has a run for each layer and axis. A run is contiguous,
 * and the same run of the next block is block_stride bytes behind it. */
typedef struct {
  size_t struct_size;
  const kvtier_room* tensors; /* 1 to 8192 that do not overlap; for views of one storage name the
                               * storage. Their bytes outlive the lanes. */
  size_t tensor_count;
  const kvtier_tensor_place* bases; /* Places of block 0's runs, by layer, then axis. */
  size_t base_count;
  int32_t axes;  /* KVTIER_AXES_*. */
  int32_t order; /* KVTIER_TOKEN_HEAD or KVTIER_HEAD_TOKEN. */
  uint32_t layers;
  uint32_t blocks; /* Blocks that the tensors hold. */
  uint64_t run_bytes;
  uint64_t block_stride;
} kvtier_lane_memory;

/* Opens lanes with `threads` threads, 1 to 16, into *lanes, to be given back by
 * kvtier_lanes_close() before the client is closed. A block's runs must add up to the space's
 * block_bytes, and its layout must be that of axes and order; in a space with a codec, the runs
 * have its shape in bf16, and its layout is one of the codec's. KVTIER_INVALID names the field and
 * value that does not fit. KVTIER_ABSENT: this process was forked. */
int kvtier_lanes_open(kvtier_client* client, kvtier_space space, const kvtier_lane_memory* memory,
                      uint32_t threads, kvtier_lanes** lanes);
/* Opens lanes over tensors on a GPU, given by the addresses that the GPU sees. `device` is
 * "cuda:N"; or "host", which is kvtier_lanes_open() with one thread. The lanes of one client share
 * what they need of a GPU. KVTIER_INVALID also: the GPU cannot be opened, with the driver's words,
 * or this library was built without CUDA. */
int kvtier_lanes_open_on(kvtier_client* client, kvtier_space space,
                         const kvtier_lane_memory* memory, const char* device,
                         kvtier_lanes** lanes);
/* Waits for the blocks that are being copied (on a GPU, for all jobs), and ends all unfinished jobs
 * as failed. NULL is ignored. */
void kvtier_lanes_close(kvtier_lanes* lanes);

/* The functions that follow may be called from any thread. The offloads and onboards start a job
 * into *job, to be given back by kvtier_lane_job_free(), and never wait. The `count` keys are a run
 * in prefix order; keys[i] names the block that the engine's block blocks[i] holds, or is to hold.
 * KVTIER_AGAIN: 256 jobs of the direction (32 on a GPU) or 256 calls of the client are in progress;
 * retry when one has ended. */

/* Stores copies of the blocks; `parent` is the key before keys[0], NULL: keys[0] is a root. Blocks
 * that are stored already are not copied. */
int kvtier_lanes_offload(kvtier_lanes* lanes, const kvtier_bytes* parent, const kvtier_bytes* keys,
                         const uint32_t* blocks, size_t count, kvtier_lane_job** job);
/* Brings the leading blocks that reach host memory within the timeout, which does not count the
 * copies. Only the lanes may touch the engine's blocks until the job is done. */
int kvtier_lanes_onboard(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                         size_t count, int32_t timeout_ms, kvtier_lane_job** job);

/* Work that an engine has submitted to its GPU by itself. */
enum {
  KVTIER_WORK_NOTHING = 0,
  KVTIER_WORK_STREAM = 1, /* All work that is in the stream at the moment of the call. */
  KVTIER_WORK_EVENT = 2   /* Work that the event was last recorded after. */
};
typedef struct {
  int32_t kind;     /* KVTIER_WORK_*. */
  int32_t reserved; /* 0. */
  void* handle;     /* cudaStream_t, NULL being CUDA's default stream, or cudaEvent_t. */
} kvtier_gpu_work;

/* Options of a job. All zero after struct_size: none. */
typedef struct {
  size_t struct_size;
  /* Hint about the next use of the blocks. NULL: nothing is known. */
  const kvtier_reuse_hint* hint;
  /* Work on the GPU that must end before the lanes touch the blocks: for an offload the work that
   * computes them, for an onboard a step that still reads them; NULL: none. The call does not wait
   * for it; the job fails if it takes longer than 10 s. A stream that captures a graph is
   * KVTIER_INVALID, and so is any work for lanes of host memory. */
  const kvtier_gpu_work* after;
  /* A cudaEvent_t that an onboard on a GPU records after its copies, when it submits them; NULL:
   * none. kvtier_lane_job_recorded() says when that has happened: a stream that waits for the event
   * earlier does not wait for the copies. The blocks are proven after the event, so a result
   * computed from them before the job's end is void if the job's results say so. */
  void* record;
} kvtier_lane_options;

/* Start the same jobs with options; NULL: none. Blocks that a GPU onboards arrive together: if one
 * is damaged, all results are 0. */
int kvtier_lanes_offload_with(kvtier_lanes* lanes, const kvtier_bytes* parent,
                              const kvtier_bytes* keys, const uint32_t* blocks, size_t count,
                              const kvtier_lane_options* options, kvtier_lane_job** job);
int kvtier_lanes_onboard_with(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                              size_t count, int32_t timeout_ms, const kvtier_lane_options* options,
                              kvtier_lane_job** job);

/* Waits until no offload reads any of these blocks, for callers that want to overwrite them; they
 * are copied ahead of all others. Returns 1 if all were copied; 0 if some were not copied in time
 * and were given up: these are not stored, the other blocks of their jobs are. The blocks may be
 * overwritten either way. KVTIER_DEFAULT_TIMEOUT is KVTIER_INVALID. */
int kvtier_lanes_await_copied(kvtier_lanes* lanes, const uint32_t* blocks, size_t count,
                              int32_t timeout_ms);

/* Counts of what was copied since the start, in one direction. */
typedef struct {
  size_t struct_size;
  uint64_t blocks;
  uint64_t bytes;
  uint64_t failed_blocks; /* Copied in vain: damaged, or their lease or reservation ended. */
  uint64_t copy_us;       /* Microseconds spent in copies, by all threads or jobs together. */
} kvtier_lane_stats;
/* Fills the statistics of offloads and of onboards; either may be NULL. */
int kvtier_lanes_stats(kvtier_lanes* lanes, kvtier_lane_stats* offloads,
                       kvtier_lane_stats* onboards);

/* A job ends by itself, also without an agent, and may outlive its lanes. Several threads may look
 * at one. */

/* Returns 1 if the job has ended; 0: not yet. Never waits. */
int kvtier_lane_job_done(const kvtier_lane_job* job);
/* Returns 1 if the lanes will not touch the job's blocks any more; 0: not yet. For an offload that
 * is before its end, and its blocks may then be overwritten. Never waits. */
int kvtier_lane_job_copied(const kvtier_lane_job* job);
/* Returns 1 if the event of the options is recorded; 0: not yet, or never. Never waits. */
int kvtier_lane_job_recorded(const kvtier_lane_job* job);
/* Waits until the job has ended, `timeout_ms` at most. Returns what kvtier_lane_job_done() returns.
 * KVTIER_DEFAULT_TIMEOUT is KVTIER_INVALID. */
int kvtier_lane_job_wait(const kvtier_lane_job* job, int32_t timeout_ms);
/* Returns the result for the job's `index`th key, once the job has ended.
 * For an offload, 1: the block is in host memory, stored by this job or before; 0: it is not,
 * because there was no room, another worker is putting it, the codec does not make it smaller, or
 * the job failed.
 * For an onboard, 1: the engine's block holds the block that its key names, proven; with a codec,
 * decoded from the proven encoding. 0: it does not hold it, and its bytes are void; lanes
 * of host memory in a space with a codec leave them as they were. KVTIER_INVALID: the job has not
 * ended, or has fewer keys. */
int kvtier_lane_job_result(const kvtier_lane_job* job, size_t index);
/* Copies the text of the error for which blocks did not come or were not stored, as
 * kvtier_agent_error() copies; "" if there was none, or the job has not ended. A miss and a lack of
 * room are no errors. */
size_t kvtier_lane_job_error(const kvtier_lane_job* job, char* text, size_t size);
/* Frees the handle; the job itself goes on. NULL is ignored. */
void kvtier_lane_job_free(kvtier_lane_job* job);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_LANES_H_ */
