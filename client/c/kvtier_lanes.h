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

/* Runs of a layer: keys and values have one each (APART, keys first), or rows have both (FUSED), or
 * rows are those of latent attention. */
enum { KVTIER_AXES_APART = 0, KVTIER_AXES_FUSED = 1, KVTIER_AXES_LATENT = 2 };
/* Of the rows inside a run: NHD or HND. */
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
  const kvtier_room* tensors; /* 1 to 8192, which do not overlap: of views of one storage, the
                               * storage. Their bytes outlive the lanes. */
  size_t tensor_count;
  const kvtier_tensor_place* bases; /* Of block 0's run, by layer, then axis. */
  size_t base_count;
  int32_t axes;  /* KVTIER_AXES_*. */
  int32_t order; /* KVTIER_TOKEN_HEAD or KVTIER_HEAD_TOKEN. */
  uint32_t layers;
  uint32_t blocks; /* That the tensors hold. */
  uint64_t run_bytes;
  uint64_t block_stride;
} kvtier_lane_memory;

/* Opens lanes with `threads` threads, 1 to 16, into *lanes, to be given back by
 * kvtier_lanes_close(), ahead of the client. KVTIER_INVALID names the field and the value of what
 * does not fit the space: a block's runs together are its block_bytes, and its layout is that of
 * axes and order; of a space with a codec, the runs are of its shape in bf16, and its layout is one
 * of the codec's. KVTIER_ABSENT: this process was forked. */
int kvtier_lanes_open(kvtier_client* client, kvtier_space space, const kvtier_lane_memory* memory,
                      uint32_t threads, kvtier_lanes** lanes);
/* The same for tensors on a GPU, by the addresses that the GPU sees. `device` is "cuda:N"; or
 * "host", as kvtier_lanes_open() with one thread. The lanes of one client share what they need of a
 * GPU. KVTIER_INVALID: also where it cannot be opened, with the driver's words, or this library was
 * built without CUDA. */
int kvtier_lanes_open_on(kvtier_client* client, kvtier_space space,
                         const kvtier_lane_memory* memory, const char* device,
                         kvtier_lanes** lanes);
/* Waits for the blocks that are being copied, on a GPU for all jobs, and ends all jobs as failed.
 * NULL is ignored. */
void kvtier_lanes_close(kvtier_lanes* lanes);

/* The functions that follow take lanes from any thread. Both of these start a job into *job, to be
 * given back by kvtier_lane_job_free(), and never wait. keys[i], of a run in prefix order, names
 * what blocks[i] of the engine holds, or is to hold; there are `count`. KVTIER_AGAIN: 256 jobs of
 * the direction are under way (32 on a GPU), or 256 calls of the client; retry when one is done. */

/* Stores copies of the blocks; `parent` is the key before keys[0], NULL: keys[0] is a root. What is
 * stored already is not copied. */
int kvtier_lanes_offload(kvtier_lanes* lanes, const kvtier_bytes* parent, const kvtier_bytes* keys,
                         const uint32_t* blocks, size_t count, kvtier_lane_job** job);
/* Brings the leading blocks that are in host memory in time; the timeout does not count the
 * copies. The blocks are the lanes' to write until the job is done. */
int kvtier_lanes_onboard(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                         size_t count, int32_t timeout_ms, kvtier_lane_job** job);

/* Names what an engine has submitted to its GPU by itself. */
enum {
  KVTIER_WORK_NOTHING = 0,
  KVTIER_WORK_STREAM = 1, /* All that is in the stream at the moment of the call. */
  KVTIER_WORK_EVENT = 2   /* What the event was last recorded behind. */
};
typedef struct {
  int32_t kind;     /* KVTIER_WORK_*. */
  int32_t reserved; /* 0. */
  void* handle;     /* cudaStream_t, NULL being CUDA's default stream, or cudaEvent_t. */
} kvtier_gpu_work;

/* What else is said of a job. All zero behind struct_size says nothing. */
typedef struct {
  size_t struct_size;
  /* Hint about the next use of the blocks. NULL: nothing is known. */
  const kvtier_reuse_hint* hint;
  /* Work on the GPU that ends before the blocks are touched: of an offload what computes them, of
   * an onboard a step that still reads them; NULL: none. The call does not wait for it; the job
   * fails if it takes longer than 10 s. A stream that captures a graph is KVTIER_INVALID, and so is
   * any work for lanes of host memory. */
  const kvtier_gpu_work* after;
  /* Of an onboard on a GPU: a cudaEvent_t that is recorded behind its copies, when they are
   * submitted, which kvtier_lane_job_recorded() says: what waits for it before does not wait for
   * them. The blocks are proven behind it, so that what computes on them before the job's end is
   * void where the results say so. NULL: none. */
  void* record;
} kvtier_lane_options;

/* The same with options; NULL: none. Blocks that a GPU onboards arrive together: where one is
 * damaged, all results are 0. */
int kvtier_lanes_offload_with(kvtier_lanes* lanes, const kvtier_bytes* parent,
                              const kvtier_bytes* keys, const uint32_t* blocks, size_t count,
                              const kvtier_lane_options* options, kvtier_lane_job** job);
int kvtier_lanes_onboard_with(kvtier_lanes* lanes, const kvtier_bytes* keys, const uint32_t* blocks,
                              size_t count, int32_t timeout_ms, const kvtier_lane_options* options,
                              kvtier_lane_job** job);

/* Waits until no offload reads any of these blocks, for callers that want to overwrite them; what
 * reads them is copied ahead of everything else. 1: nothing does. 0: some were not copied in time
 * and were given up: they are not stored, the other blocks of their jobs are. The blocks may be
 * overwritten either way. KVTIER_DEFAULT_TIMEOUT is KVTIER_INVALID. */
int kvtier_lanes_await_copied(kvtier_lanes* lanes, const uint32_t* blocks, size_t count,
                              int32_t timeout_ms);

/* What was copied since the start, in one direction. */
typedef struct {
  size_t struct_size;
  uint64_t blocks;
  uint64_t bytes;
  uint64_t
      failed_blocks; /* Copied for nothing: damaged, or of a lease or reservation that ended. */
  uint64_t copy_us;  /* Microseconds spent in copies, by all threads or jobs together. */
} kvtier_lane_stats;
/* Fills the statistics of offloads and of onboards; either may be NULL. */
int kvtier_lanes_stats(kvtier_lanes* lanes, kvtier_lane_stats* offloads,
                       kvtier_lane_stats* onboards);

/* A job ends by itself, also without an agent, and may outlive its lanes. Several threads may look
 * at one. */

/* 1: it has ended; 0: not yet. Never waits. */
int kvtier_lane_job_done(const kvtier_lane_job* job);
/* 1: the lanes have left the job's blocks alone for good, which is ahead of its end for an offload;
 * its blocks may be overwritten then. 0: not yet. Never waits. */
int kvtier_lane_job_copied(const kvtier_lane_job* job);
/* 1: the event of the options is recorded; 0: not yet, or never. Never waits. */
int kvtier_lane_job_recorded(const kvtier_lane_job* job);
/* Waits until it has ended, `timeout_ms` at most, as kvtier_lane_job_done() answers.
 * KVTIER_DEFAULT_TIMEOUT is KVTIER_INVALID. */
int kvtier_lane_job_wait(const kvtier_lane_job* job, int32_t timeout_ms);
/* Of the job's `index`th key, when the job has ended. Of an offload, 1: the block is in host
 * memory, stored by this job or before; 0: it is not, because there was no room, another worker is
 * putting it, the codec does not make it smaller, or the job failed. Of an onboard, 1: the block
 * holds what its key names, proven; with a codec, what the codec makes of the proven encoding. 0:
 * it does not, and its bytes are void; of lanes of host memory in a space with a codec they are as
 * they were. KVTIER_INVALID: the job has not ended, or has not so many keys. */
int kvtier_lane_job_result(const kvtier_lane_job* job, size_t index);
/* Copies why blocks failed that could have come or been stored; "" where none did, or the job has
 * not ended. A miss and a lack of room are no errors. As kvtier_agent_error(). */
size_t kvtier_lane_job_error(const kvtier_lane_job* job, char* text, size_t size);
/* The job itself goes on. NULL is ignored. */
void kvtier_lane_job_free(kvtier_lane_job* job);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* KVTIER_LANES_H_ */
