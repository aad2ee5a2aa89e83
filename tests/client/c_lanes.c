/* Uses kvtier_lanes.h from C: c_lanes SOCKET_DIR [absent]. Exits with 0, or with the number of the
 * step that failed. */
#include <stdlib.h>
#include <string.h>

#include "kvtier_lanes.h"
#include "tests/testing/c_program.h"

#define BLOCKS 8
#define RUN_BYTES 1024
#define WAIT 20000

/* Lays out two runs for each block: keys of all blocks, then values of all blocks. */
static char tensor[2 * BLOCKS * RUN_BYTES];
static const kvtier_bytes keys[2] = {{"the first key", 13}, {"the second key", 14}};
static const uint32_t from[2] = {6, 1};
static const uint32_t to[2] = {0, 3};

static const kvtier_tensor_place bases[2] = {{0, 0, 0}, {0, 0, BLOCKS* RUN_BYTES}};
static const kvtier_room room = {tensor, sizeof(tensor)};

static kvtier_lane_memory make_memory(void) {
  kvtier_lane_memory memory;
  memset(&memory, 0, sizeof(memory));
  memory.struct_size = sizeof(memory);
  memory.tensors = &room;
  memory.tensor_count = 1;
  memory.bases = bases;
  memory.base_count = 2;
  memory.axes = KVTIER_AXES_APART;
  memory.order = KVTIER_HEAD_TOKEN;
  memory.layers = 1;
  memory.blocks = BLOCKS;
  memory.run_bytes = memory.block_stride = RUN_BYTES;
  return memory;
}

static char* run_of(uint32_t axis, uint32_t block) {
  return tensor + (axis * BLOCKS + block) * RUN_BYTES;
}

static int test_blocks_come_back(kvtier_lanes* lanes) {
  for (uint32_t axis = 0; axis < 2; ++axis) {
    for (int i = 0; i < 2; ++i)
      memset(run_of(axis, from[i]), (int)('a' + 2 * i + (int)axis), RUN_BYTES);
  }
  kvtier_lane_job* job = NULL;
  EXPECT(kvtier_lanes_offload(lanes, NULL, keys, from, 1, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1 && kvtier_lane_job_result(job, 0) == 1);
  EXPECT(kvtier_lane_job_done(job) == 1 && kvtier_lane_job_copied(job) == 1);
  kvtier_lane_job_free(job);
  EXPECT(kvtier_lanes_offload(lanes, &keys[0], &keys[1], &from[1], 1, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1 && kvtier_lane_job_result(job, 0) == 1);
  char text[8];
  EXPECT(kvtier_lane_job_error(job, text, sizeof(text)) == 0 && text[0] == '\0');
  kvtier_lane_job_free(job);
  EXPECT(kvtier_lanes_await_copied(lanes, from, 2, 0) == 1);

  const kvtier_reuse_hint hint = {.struct_size = sizeof(hint), .has_priority = 1, .priority = 7};
  const kvtier_lane_options options = {.struct_size = sizeof(options), .hint = &hint};
  EXPECT(kvtier_lanes_onboard_with(lanes, keys, to, 2, WAIT, &options, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT(kvtier_lane_job_result(job, (size_t)i) == 1);
    for (uint32_t axis = 0; axis < 2; ++axis) {
      EXPECT(memcmp(run_of(axis, to[i]), run_of(axis, from[i]), RUN_BYTES) == 0);
    }
  }
  EXPECT(kvtier_lane_job_result(job, 2) == KVTIER_INVALID);
  kvtier_lane_job_free(job);

  kvtier_lane_stats out = {.struct_size = sizeof(out)};
  kvtier_lane_stats in = {.struct_size = sizeof(in)};
  EXPECT(kvtier_lanes_stats(lanes, &out, &in) == KVTIER_OK);
  EXPECT(out.blocks == 2 && out.bytes == 4 * RUN_BYTES && out.failed_blocks == 0);
  EXPECT(in.blocks == 2 && in.bytes == 4 * RUN_BYTES && in.failed_blocks == 0);
  return 0;
}

/* Moves blocks of bf16 in a space with a codec; they come back encoded and decoded. */
static int test_codec(kvtier_client* client) {
  kvtier_space_spec spec = make_spec(0);
  spec.dtype = "bfloat16";
  spec.layout = "layer,kv,token,head,dim";
  spec.head_dim = RUN_BYTES / 2 / 16;
  spec.codec = "int8";
  kvtier_codec_sizes sizes = {.struct_size = sizeof(sizes)};
  EXPECT(kvtier_get_codec_sizes(&spec, &sizes) == KVTIER_OK);
  EXPECT(sizes.raw_bytes == 2 * RUN_BYTES && sizes.encoded_bytes < sizes.raw_bytes);
  spec.block_bytes = sizes.encoded_bytes;
  kvtier_space space;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  const kvtier_lane_memory memory = make_memory();
  kvtier_lanes* lanes = NULL;
  EXPECT(kvtier_lanes_open(client, space, &memory, 1, &lanes) == KVTIER_OK);

  static _Alignas(16) char raw[2 * RUN_BYTES];
  static _Alignas(16) char stored[2 * RUN_BYTES];
  for (size_t i = 0; i < sizeof(raw); i += 2) {
    const unsigned value = 0x3f00u + (unsigned)(i * 7 % 256); /* bf16 from 0.5 to 2. */
    raw[i] = (char)(value & 0xff);
    raw[i + 1] = (char)(value >> 8);
  }
  for (uint32_t axis = 0; axis < 2; ++axis) {
    memcpy(run_of(axis, from[0]), raw + axis * RUN_BYTES, RUN_BYTES);
    memset(run_of(axis, to[0]), 0x11, RUN_BYTES);
  }
  kvtier_lane_job* job = NULL;
  EXPECT(kvtier_lanes_offload(lanes, NULL, keys, from, 1, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1 && kvtier_lane_job_result(job, 0) == 1);
  kvtier_lane_job_free(job);
  EXPECT(kvtier_lanes_onboard(lanes, keys, to, 1, WAIT, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1 && kvtier_lane_job_result(job, 0) == 1);
  kvtier_lane_job_free(job);

  kvtier_codec* codec = NULL;
  EXPECT(kvtier_open_codec(&spec, &codec) == KVTIER_OK);
  EXPECT(kvtier_encode(codec, raw, sizeof(raw), stored, sizes.encoded_bytes) == 1);
  EXPECT(kvtier_decode(codec, stored, sizes.encoded_bytes, raw, sizeof(raw)) == KVTIER_OK);
  kvtier_close_codec(codec);
  for (uint32_t axis = 0; axis < 2; ++axis) {
    EXPECT(memcmp(run_of(axis, to[0]), raw + axis * RUN_BYTES, RUN_BYTES) == 0);
  }
  kvtier_lanes_close(lanes);

  spec.dtype = "float32";
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "dtype \"float32\"; codec int8 is for bfloat16") != NULL);
  return 0;
}

static int test_absent(kvtier_lanes* lanes) {
  kvtier_lane_job* job = NULL;
  EXPECT(kvtier_lanes_onboard(lanes, keys, to, 2, KVTIER_DEFAULT_TIMEOUT, &job) == KVTIER_OK);
  EXPECT(kvtier_lane_job_wait(job, WAIT) == 1);
  EXPECT(kvtier_lane_job_result(job, 0) == 0 && kvtier_lane_job_result(job, 1) == 0);
  char text[8];
  EXPECT(kvtier_lane_job_error(job, text, sizeof(text)) > sizeof(text));
  EXPECT(strcmp(text, "onboard") == 0);
  kvtier_lane_job_free(job);
  return 0;
}

static int test_mistakes(kvtier_client* client, kvtier_space space, kvtier_lanes* lanes) {
  kvtier_lanes* none = NULL;
  kvtier_lane_memory memory = make_memory();
  memory.axes = 3;
  EXPECT(kvtier_lanes_open(client, space, &memory, 1, &none) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "memory.axes is 3") != NULL && none == NULL);
  memory = make_memory();
  memory.block_stride = RUN_BYTES - 1;
  EXPECT(kvtier_lanes_open(client, space, &memory, 1, &none) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "block_stride is 1023") != NULL);
  memory = make_memory();
  EXPECT(kvtier_lanes_open(client, space, &memory, 0, &none) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_open(client, space, NULL, 1, &none) == KVTIER_INVALID);
  kvtier_lane_job* job = NULL;
  const uint32_t past[1] = {BLOCKS};
  EXPECT(kvtier_lanes_offload(lanes, NULL, keys, past, 1, &job) == KVTIER_INVALID && job == NULL);
  EXPECT(strstr(kvtier_last_error(), "blocks[0] is 8; must be below 8") != NULL);
  EXPECT(kvtier_lanes_offload(lanes, NULL, keys, NULL, 1, &job) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_onboard(lanes, keys, to, 2, -1, &job) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_onboard(NULL, keys, to, 2, WAIT, &job) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_await_copied(lanes, to, 2, KVTIER_DEFAULT_TIMEOUT) == KVTIER_INVALID);
  EXPECT(kvtier_lane_job_wait(NULL, 0) == KVTIER_INVALID);
  EXPECT(kvtier_lane_job_result(NULL, 0) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_open_on(client, space, &memory, "cuda:99", &none) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "device \"cuda:99\" cannot be opened: ") != NULL &&
         none == NULL);
  EXPECT(kvtier_lanes_open_on(client, space, &memory, NULL, &none) == KVTIER_INVALID);
  kvtier_gpu_work work = {.kind = KVTIER_WORK_STREAM, .handle = NULL};
  kvtier_lane_options options = {.struct_size = sizeof(options), .after = &work};
  EXPECT(kvtier_lanes_offload_with(lanes, NULL, keys, to, 2, &options, &job) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "no streams") != NULL && job == NULL);
  work.kind = 3;
  EXPECT(kvtier_lanes_onboard_with(lanes, keys, to, 2, WAIT, &options, &job) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "after.kind is 3") != NULL);
  work.kind = KVTIER_WORK_NOTHING;
  options.record = &memory;
  EXPECT(kvtier_lanes_onboard_with(lanes, keys, to, 2, WAIT, &options, &job) == KVTIER_INVALID);
  EXPECT(kvtier_lanes_offload_with(lanes, NULL, keys, to, 2, &options, &job) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "options.record is not NULL") != NULL);
  options.record = NULL;
  options.struct_size = sizeof(options) - 1;
  EXPECT(kvtier_lanes_offload_with(lanes, NULL, keys, to, 2, &options, &job) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "options.struct_size is too small") != NULL);
  options.struct_size = sizeof(options);
  const kvtier_reuse_hint hint = {.struct_size = sizeof(hint), .finish = 5};
  options.hint = &hint;
  EXPECT(kvtier_lanes_onboard_with(lanes, keys, to, 2, WAIT, &options, &job) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "options.hint.finish is 5") != NULL && job == NULL);
  EXPECT(kvtier_lane_job_recorded(NULL) == 0);
  kvtier_lane_job_free(NULL);
  kvtier_lanes_close(NULL);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 100;
  kvtier_client* client = NULL;
  kvtier_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.socket_dir = argv[1];
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  kvtier_space_spec spec = make_spec(2 * RUN_BYTES);
  kvtier_space space;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  const kvtier_lane_memory memory = make_memory();
  kvtier_lanes* lanes = NULL;
  EXPECT(kvtier_lanes_open(client, space, &memory, 1, &lanes) == KVTIER_OK);
  int failed = argc > 2 ? test_absent(lanes) : test_blocks_come_back(lanes);
  if (failed == 0) failed = test_mistakes(client, space, lanes);
  if (failed == 0 && argc == 2) failed = test_codec(client);
  kvtier_lanes_close(lanes);
  kvtier_close(client);
  return failed;
}
