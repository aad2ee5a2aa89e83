/* Runs a worker in C: puts blocks and gets them back through libkvtier_client.so, with blocking
 * and submitted calls. c_abi_test runs it with the directory of a running agent's sockets. It exits
 * with the number of the step that failed. With "absent" as second argument there is no agent, and
 * everything must be a miss. */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvtier.h"
#include "kvtier_copy.h"
#include "tests/testing/c_program.h"

#define KEYS 4
#define WAIT KVTIER_DEFAULT_TIMEOUT
#define BLOCK_BYTES 5000
#define RAW_BYTES 1024 /* Block in test_codec(): K and V, 16 tokens, 16 values. */

static char key_bytes[KEYS][16];
static kvtier_bytes keys[KEYS];

static void make_keys(char first) {
  for (int i = 0; i < KEYS; ++i) {
    memset(key_bytes[i], first + i, sizeof(key_bytes[i]));
    keys[i].data = key_bytes[i];
    keys[i].size = sizeof(key_bytes[i]);
  }
}

static int fill_slots(const kvtier_put* put) {
  for (size_t i = 0; i < kvtier_put_count(put); ++i) {
    void* data = NULL;
    size_t size = 0;
    EXPECT(kvtier_put_slot(put, i, &data, &size) == KVTIER_RESERVED);
    EXPECT(size == BLOCK_BYTES);
    memset(data, key_bytes[i][0], size);
  }
  return 0;
}

static int check_hit(const kvtier_hit* hit) {
  EXPECT(kvtier_hit_count(hit) == KEYS);
  for (size_t i = 0; i < KEYS; ++i) {
    kvtier_bytes block;
    int from = -1;
    EXPECT(kvtier_hit_block(hit, i, &block, &from) == KVTIER_OK);
    EXPECT(from == KVTIER_HOST && block.size == BLOCK_BYTES);
    const char* bytes = block.data;
    EXPECT(bytes[0] == key_bytes[i][0] && bytes[BLOCK_BYTES - 1] == key_bytes[i][0]);
  }
  EXPECT(kvtier_hit_valid(hit) == 1);
  return 0;
}

static int wait_and_poll(kvtier_client* client, kvtier_completion* completion) {
  struct pollfd readable = {.fd = kvtier_event_fd(client), .events = POLLIN, .revents = 0};
  EXPECT(poll(&readable, 1, 10000) == 1);
  EXPECT(kvtier_poll(client, completion, 1) == 1);
  EXPECT(poll(&readable, 1, 0) == 0); /* No completion is left. */
  EXPECT(kvtier_poll(client, completion, 0) == 0);
  return 0;
}

/* Checks that the answer says why a block got no slot. */
static int check_entries(kvtier_client* client, kvtier_space space) {
  kvtier_put *put = NULL, *again = NULL;
  void* slot = NULL;
  size_t size = 0;
  EXPECT(kvtier_reserve_entries(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == 0);
  EXPECT(kvtier_put_count(put) == KEYS);
  EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_PRESENT && slot == NULL);
  EXPECT(kvtier_put_state(put, 0) == KVTIER_PRESENT);
  EXPECT(kvtier_put_state(put, KEYS) == KVTIER_INVALID && kvtier_put_state(NULL, 0) < 0);
  EXPECT(kvtier_commit(put) == 0);
  make_keys('P');
  EXPECT(kvtier_reserve(client, space, NULL, keys, 1, KVTIER_HOST, WAIT, &put) == 1);
  EXPECT(kvtier_submit_reserve_entries(client, space, NULL, keys, 1, KVTIER_HOST, WAIT, 73) ==
         KVTIER_OK);
  kvtier_completion done;
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 73 && done.op == KVTIER_OP_RESERVE_ENTRIES && done.blocks == 0);
  EXPECT(kvtier_put_slot(done.put, 0, &slot, &size) == KVTIER_PENDING && slot == NULL);
  kvtier_cancel_puts(&done.put, 1);
  EXPECT(kvtier_reserve(client, space, NULL, keys, 1, KVTIER_HOST, WAIT, &again) == 0);
  kvtier_cancel_puts(&put, 1);
  return 0;
}

/* Fills one of three slots, gives one back, and only looks at one. */
static int test_partial(kvtier_client* client, kvtier_space space) {
  kvtier_put* put = NULL;
  void* slot = NULL;
  size_t size = 0;
  make_keys('p');
  EXPECT(kvtier_reserve(client, space, NULL, keys, 3, KVTIER_HOST, WAIT, &put) == 3);
  EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_RESERVED);
  memset(slot, 'p', size);
  EXPECT(kvtier_put_slot(put, 1, &slot, &size) == KVTIER_RESERVED);
  EXPECT(kvtier_give_back(put, 1) == KVTIER_OK);
  EXPECT(kvtier_put_state(put, 2) == KVTIER_RESERVED);
  EXPECT(kvtier_commit(put) == 1);
  EXPECT(kvtier_match(client, space, keys, 3, KVTIER_LOCAL_ONLY, WAIT, NULL) == 1);
  EXPECT(kvtier_match(client, space, &keys[2], 1, KVTIER_LOCAL_ONLY, WAIT, NULL) == 0);
  kvtier_stats stats = {.struct_size = sizeof(stats)};
  EXPECT(kvtier_get_stats(client, &stats) == KVTIER_OK && stats.unwritten_blocks == 1);
  return 0;
}

/* Copies a block in from two pieces and out to three; invalid calls are refused. */
static int test_copies(kvtier_client* client, kvtier_space space) {
  static char block[BLOCK_BYTES];
  static char copy[BLOCK_BYTES];
  for (int i = 0; i < BLOCK_BYTES; ++i) block[i] = (char)(i * 11 + i / 256);
  const kvtier_bytes from[] = {{block, 4000}, {block + 4000, BLOCK_BYTES - 4000}};
  const kvtier_room to[] = {{copy, 1}, {NULL, 0}, {copy + 1, BLOCK_BYTES - 1}};
  kvtier_put* put = NULL;
  make_keys('y');
  EXPECT(kvtier_reserve(client, space, NULL, keys, 2, KVTIER_HOST, WAIT, &put) == 2);
  EXPECT(kvtier_copy_in(put, 0, from, 1) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "block 0: pieces have 4000 bytes") != NULL);
  EXPECT(kvtier_copy_in(put, 2, from, 2) == KVTIER_INVALID);
  EXPECT(kvtier_copy_in(NULL, 0, from, 2) == KVTIER_INVALID);
  EXPECT(kvtier_copy_in(put, 0, NULL, 2) == KVTIER_INVALID);
  const kvtier_bytes nowhere = {NULL, BLOCK_BYTES};
  EXPECT(kvtier_copy_in(put, 0, &nowhere, 1) == KVTIER_INVALID);
  EXPECT(kvtier_copy_in(put, 1, from, 2) == KVTIER_OK);
  EXPECT(kvtier_commit(put) == 1); /* The other one was not taken. */
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, &keys[1], 1, KVTIER_HOST, 0, 5000, &hit) == 1);
  EXPECT(kvtier_copy_out(hit, 0, to, 2) == KVTIER_INVALID);
  EXPECT(kvtier_copy_out(hit, 1, to, 3) == KVTIER_INVALID);
  EXPECT(kvtier_copy_out(NULL, 0, to, 3) == KVTIER_INVALID);
  EXPECT(kvtier_copy_out(hit, 0, NULL, 3) == KVTIER_INVALID);
  EXPECT(kvtier_copy_out(hit, 0, to, 3) == KVTIER_OK);
  EXPECT(kvtier_prove(hit, 0) == KVTIER_OK);
  EXPECT(kvtier_prove(hit, 1) == KVTIER_INVALID && kvtier_prove(NULL, 0) == KVTIER_INVALID);
  EXPECT(memcmp(block, copy, BLOCK_BYTES) == 0);
  kvtier_release_hits(&hit, 1);
  return 0;
}

/* Reads the node's table, without a call: for keys that are there, and two that are not. */
static int test_residences(kvtier_client* client, kvtier_space space) {
  uint8_t said[KEYS + 2];
  kvtier_bytes asked[KEYS + 2];
  memset(said, 77, sizeof(said));
  for (int i = 0; i < KEYS; ++i) asked[i + 1] = keys[i];
  asked[0].data = asked[KEYS + 1].data = "not put anywhere";
  asked[0].size = asked[KEYS + 1].size = 16;
  EXPECT(kvtier_residences(client, space, asked, KEYS + 2, said) == KVTIER_OK);
  EXPECT(said[0] == KVTIER_NOT_HERE && said[KEYS + 1] == KVTIER_NOT_HERE);
  for (int i = 0; i < KEYS; ++i) EXPECT(said[i + 1] == KVTIER_HOST);
  EXPECT(kvtier_resident_run(client, space, &asked[1], KEYS + 1) == KEYS);
  EXPECT(kvtier_resident_run(client, space, asked, KEYS + 2) == 0);
  EXPECT(kvtier_residences(client, space, asked, 0, NULL) == KVTIER_OK);
  EXPECT(kvtier_residences(client, space, asked, 1, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_residences(client, space + 1, asked, 1, said) == KVTIER_INVALID);
  EXPECT(kvtier_resident_run(NULL, space, asked, 1) == KVTIER_INVALID);
  asked[1].size = 7;
  EXPECT(kvtier_resident_run(client, space, asked, KEYS) == KVTIER_INVALID);
  return 0;
}

static int test_waiting(kvtier_client* client, kvtier_space space) {
  make_keys('a');
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == KEYS);
  if (fill_slots(put) != 0) return step;
  EXPECT(kvtier_commit(put) == KEYS);
  if (test_residences(client, space) != 0) return step;

  uint64_t local = 0;
  EXPECT(kvtier_match(client, space, keys, KEYS, KVTIER_LOCAL_ONLY, WAIT, &local) == KEYS);
  EXPECT(local == KEYS);
  EXPECT(kvtier_prefetch(client, space, keys, KEYS, 0, WAIT) == KEYS);
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 5000, &hit) == KEYS);
  if (check_hit(hit) != 0) return step;
  kvtier_release_hits(&hit, 1);

  EXPECT(kvtier_reserve(client, space, &keys[0], keys, KEYS, KVTIER_HOST, WAIT, &put) == 0);
  EXPECT(put == NULL); /* All blocks are present. */
  if (check_entries(client, space) != 0) return step;
  EXPECT(kvtier_ping(client, 5000) == KVTIER_OK);
  return 0;
}

static int test_submitted(kvtier_client* client, kvtier_space space) {
  make_keys('k');
  kvtier_completion done;
  EXPECT(kvtier_submit_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, 71) ==
         KVTIER_OK);
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 71 && done.op == KVTIER_OP_RESERVE && done.blocks == KEYS);
  if (fill_slots(done.put) != 0) return step;

  /* Without a pool there are no steps: committed blocks are complete now. */
  EXPECT(kvtier_begin_step(client) == 0);
  EXPECT(kvtier_end_step(client, 0) == KVTIER_OK);
  EXPECT(kvtier_submit_commit_step(client, done.put, 0, 72) == KVTIER_OK);
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 72 && done.op == KVTIER_OP_COMMIT && done.blocks == KEYS);

  EXPECT(kvtier_submit_match(client, space, keys, KEYS, 0, WAIT, 73) == KVTIER_OK);
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 73 && done.blocks == KEYS && done.local_blocks == KEYS);

  EXPECT(kvtier_submit_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 5000, 74) == KVTIER_OK);
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 74 && done.op == KVTIER_OP_ONBOARD && done.blocks == KEYS);
  if (check_hit(done.hit) != 0) return step;
  kvtier_release_hits(&done.hit, 1);

  /* Completions that nobody polls are bounded, and freed by kvtier_close(). */
  int submitted = 0;
  int result = KVTIER_OK;
  while (submitted <= KVTIER_MAX_SUBMITTED &&
         (result = kvtier_submit_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 5000, 75)) ==
             KVTIER_OK) {
    ++submitted;
  }
  EXPECT(submitted == KVTIER_MAX_SUBMITTED && result == KVTIER_AGAIN);
  return 0;
}

static int test_codec(kvtier_client* client) {
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  spec.dtype = "bfloat16";
  spec.layout = "layer,kv,token,head,dim";
  spec.codec = "int8";
  kvtier_codec_sizes sizes;
  memset(&sizes, 0, sizeof(sizes));
  EXPECT(kvtier_get_codec_sizes(&spec, &sizes) == KVTIER_INVALID);
  sizes.struct_size = sizeof(sizes);
  EXPECT(kvtier_get_codec_sizes(&spec, &sizes) == KVTIER_OK);
  EXPECT(sizes.raw_bytes == RAW_BYTES && sizes.max_encoded_bytes == RAW_BYTES + 64);

  kvtier_codec* codec = NULL;
  EXPECT(kvtier_open_codec(&spec, &codec) == KVTIER_INVALID && codec == NULL);
  EXPECT(strstr(kvtier_last_error(), "block_bytes") != NULL);
  spec.block_bytes = sizes.encoded_bytes;
  EXPECT(kvtier_open_codec(&spec, &codec) == KVTIER_OK);
  kvtier_space space = 0;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);

  static _Alignas(16) uint16_t raw[RAW_BYTES / 2], back[RAW_BYTES / 2];
  for (size_t i = 0; i < RAW_BYTES / 2; ++i) raw[i] = 0x3f80; /* 1.0 */
  make_keys('C');
  kvtier_put* put = NULL;
  void* slot = NULL;
  size_t size = 0;
  EXPECT(kvtier_reserve(client, space, NULL, keys, 2, KVTIER_HOST, WAIT, &put) == 2);
  EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_RESERVED && size == sizes.encoded_bytes);
  EXPECT(kvtier_encode(codec, raw, RAW_BYTES, slot, size) == 1);
  EXPECT(kvtier_encode(codec, raw, RAW_BYTES - 2, slot, size) == KVTIER_INVALID);
  raw[7] = 0x7fc0; /* NaN */
  EXPECT(kvtier_put_slot(put, 1, &slot, &size) == KVTIER_RESERVED);
  EXPECT(kvtier_encode(codec, raw, RAW_BYTES, slot, size) == KVTIER_CODEC);
  EXPECT(kvtier_give_back(put, 1) == KVTIER_OK && kvtier_give_back(put, 2) == KVTIER_INVALID);
  EXPECT(kvtier_put_slot(put, 1, &slot, &size) == KVTIER_NO_ROOM && slot == NULL);
  EXPECT(kvtier_commit(put) == 1);

  kvtier_hit* hit = NULL;
  kvtier_bytes block;
  EXPECT(kvtier_onboard(client, space, keys, 2, KVTIER_HOST, 0, 5000, &hit) == 1);
  EXPECT(kvtier_hit_block(hit, 0, &block, NULL) == KVTIER_OK);
  EXPECT(kvtier_decode(codec, block.data, block.size, back, RAW_BYTES) == KVTIER_OK);
  EXPECT(kvtier_hit_valid(hit) == 1 && back[0] == 0x3f80 && back[RAW_BYTES / 2 - 1] == 0x3f80);
  EXPECT(kvtier_decode(codec, raw, sizes.encoded_bytes, back, RAW_BYTES) == KVTIER_CODEC);
  kvtier_release_hits(&hit, 1);
  kvtier_close_codec(codec);
  kvtier_close_codec(NULL);
  return 0;
}

/* A program built before the field existed has no room for it, and means "raw". */
static int test_spec_of_version_1(kvtier_client* client, kvtier_space space) {
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space same = space + 1;
  spec.struct_size = offsetof(kvtier_space_spec, codec);
  spec.codec = "not read";
  EXPECT(kvtier_register_space(client, &spec, &same) == KVTIER_OK && same == space);
  spec.struct_size = sizeof(spec);
  EXPECT(kvtier_register_space(client, &spec, &same) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "not read") != NULL);
  spec.codec = "raw";
  EXPECT(kvtier_register_space(client, &spec, &same) == KVTIER_OK && same == space);
  return 0;
}

static int test_mistakes(kvtier_client* client, kvtier_space space) {
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space other = 0;
  spec.kv_heads = 0;
  EXPECT(kvtier_register_space(client, &spec, &other) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "kv_heads") != NULL);
  spec.struct_size = 3;
  EXPECT(kvtier_register_space(client, &spec, &other) == KVTIER_INVALID);
  EXPECT(kvtier_register_space(client, NULL, &other) == KVTIER_INVALID);

  kvtier_bytes short_key = {.data = "1234567", .size = 7};
  EXPECT(kvtier_match(client, space, &short_key, 1, 0, WAIT, NULL) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "keys[0]") != NULL);
  EXPECT(kvtier_match(client, space, keys, KVTIER_MAX_KEYS + 1, 0, WAIT, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_match(client, space + 9, keys, KEYS, 0, WAIT, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_match(NULL, space, keys, KEYS, 0, WAIT, NULL) == KVTIER_INVALID);
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, keys, KEYS, KVTIER_DISK, 0, WAIT, &hit) == KVTIER_INVALID);
  EXPECT(kvtier_submit_commit(client, NULL, 1) == KVTIER_INVALID);
  EXPECT(kvtier_commit(NULL) == KVTIER_INVALID);
  EXPECT(kvtier_commit_step(NULL, 1) == KVTIER_INVALID);
  EXPECT(kvtier_commit_durable(NULL, 0, WAIT) == KVTIER_INVALID);
  EXPECT(kvtier_submit_commit_durable(NULL, NULL, 0, WAIT, 1) == KVTIER_INVALID);
  EXPECT(kvtier_submit_commit_step(client, NULL, 1, 1) == KVTIER_INVALID);
  EXPECT(kvtier_begin_step(NULL) == KVTIER_INVALID);
  EXPECT(kvtier_end_step(NULL, 1) == KVTIER_INVALID);
  kvtier_release_hits(&hit, 1);
  kvtier_close(NULL);
  return 0;
}

static int test_absent(kvtier_client* client, kvtier_space space, const char* why) {
  kvtier_hit* hit = NULL;
  kvtier_put* put = NULL;
  make_keys('a');
  EXPECT(kvtier_connected(client) == 0);
  EXPECT(kvtier_match(client, space, keys, KEYS, 0, WAIT, NULL) == 0);
  EXPECT(kvtier_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 60000, &hit) == 0);
  EXPECT(hit == NULL);
  EXPECT(kvtier_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == 0);
  EXPECT(put == NULL);
  EXPECT(kvtier_reserve_entries(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == 0);
  EXPECT(put == NULL); /* No agent answered. */
  uint8_t said[KEYS] = {0};
  EXPECT(kvtier_residences(client, space, keys, KEYS, said) == KVTIER_OK);
  EXPECT(said[0] == KVTIER_NOT_HERE && said[KEYS - 1] == KVTIER_NOT_HERE);
  EXPECT(kvtier_resident_run(client, space, keys, KEYS) == 0);
  EXPECT(kvtier_ping(client, 1000) == KVTIER_ABSENT);
  kvtier_completion done;
  EXPECT(kvtier_submit_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 60000, 5) == KVTIER_OK);
  if (wait_and_poll(client, &done) != 0) return step;
  EXPECT(done.tag == 5 && done.blocks == 0 && done.hit == NULL);
  char text[256];
  EXPECT(kvtier_agent_error(client, text, sizeof(text)) > 0);
  EXPECT(strstr(text, why) != NULL);
  return 0;
}

/* In a child everything is a miss, the handles that it inherited are given back there, and the
 * parent's hit stays valid. */
static int test_fork(kvtier_client* client, kvtier_space space) {
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, 5000, &hit) == KEYS);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int failed = test_absent(client, space, "forked");
    if (failed == 0 && kvtier_hit_valid(hit) != 0) failed = 1;
    kvtier_release_hits(&hit, 1);
    kvtier_close(client);
#ifdef KVTIER_ASAN
    _exit(failed == 0 ? 0 : 1); /* The child never frees the parent's objects; that is no leak. */
#else
    exit(failed == 0 ? 0 : 1);
#endif
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  const int failed = check_hit(hit);
  kvtier_release_hits(&hit, 1);
  return failed;
}

int main(int argc, char** argv) {
  if (argc < 2) return 100;
  EXPECT(kvtier_abi_version() == KVTIER_ABI_VERSION);
  kvtier_client* client = NULL;
  kvtier_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  EXPECT(kvtier_open(&options, &client) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "socket_dir") != NULL);
  options.socket_dir = argv[1];
  options.group = "default";
  EXPECT(kvtier_open(&options, &client) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "group is \"default\", the tenant itself") != NULL);
  /* A program that was built before there were groups. */
  options.struct_size = offsetof(kvtier_options, group);
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  kvtier_close(client);
  options.struct_size = sizeof(options);
  options.group = NULL;
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space space = 0;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);

  int failed = 0;
  if (argc > 2) {
    failed = test_absent(client, space, "no agent");
  } else {
    EXPECT(kvtier_connected(client) == 1);
    failed = test_waiting(client, space);
    if (failed == 0) failed = test_mistakes(client, space);
    if (failed == 0) failed = test_spec_of_version_1(client, space);
    if (failed == 0) failed = test_codec(client);
    if (failed == 0) failed = test_submitted(client, space);
    if (failed == 0) failed = test_fork(client, space);
    if (failed == 0) failed = test_partial(client, space);
    if (failed == 0) failed = test_copies(client, space);
    kvtier_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.struct_size = sizeof(stats);
    EXPECT(kvtier_get_stats(client, &stats) == KVTIER_OK);
    if (failed == 0) EXPECT(stats.connected == 1 && stats.committed_blocks == 2 * KEYS + 3);
  }
  kvtier_close(client);
  return failed;
}
