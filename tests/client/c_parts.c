/* Uses kvtier_parts.h from C: c_parts SOCKET_DIR [absent]. The agent hands over two blocks of a
 * sequence at a time. Exits with 0, or with the number of the step that failed. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "kvtier_parts.h"
#include "tests/testing/c_program.h"

#define KEYS 5
#define BLOCK_BYTES 5000
#define WAIT 10000

static char key_bytes[KEYS][16];
static kvtier_bytes keys[KEYS];

static void make_keys(void) {
  for (int i = 0; i < KEYS; ++i) {
    memset(key_bytes[i], 'a' + i, sizeof(key_bytes[i]));
    keys[i].data = key_bytes[i];
    keys[i].size = sizeof(key_bytes[i]);
  }
}

/* Puts all keys but the one at `hole`. */
static int put_blocks(kvtier_client* client, kvtier_space space, int hole) {
  for (int i = 0; i < KEYS; ++i) {
    if (i == hole) continue;
    kvtier_put* put = NULL;
    void* slot = NULL;
    size_t size = 0;
    EXPECT(kvtier_reserve(client, space, NULL, &keys[i], 1, KVTIER_HOST, WAIT, &put) == 1);
    EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_RESERVED);
    memset(slot, 'a' + i, size);
    EXPECT(kvtier_commit(put) == 1);
  }
  return 0;
}

static int poll_one(kvtier_client* client, kvtier_completion* completion) {
  struct pollfd readable = {.fd = kvtier_event_fd(client), .events = POLLIN, .revents = 0};
  EXPECT(poll(&readable, 1, WAIT) == 1);
  EXPECT(kvtier_poll(client, completion, 1) == 1);
  return 0;
}

/* Takes one part of `sequence`, whose blocks belong to the keys from `first` on without `hole`. */
static int take_part(kvtier_client* client, uint32_t sequence, int64_t first, int64_t count,
                     int64_t hole) {
  kvtier_completion part;
  if (poll_one(client, &part) != 0) return step;
  EXPECT(part.tag == 7 && part.op == KVTIER_OP_ONBOARD_PART && part.sequence == sequence);
  EXPECT(part.blocks == count && part.hit != NULL && part.put == NULL);
  EXPECT(kvtier_hit_count(part.hit) == (size_t)count);
  EXPECT(kvtier_hit_missed(part.hit) == KVTIER_MISSED_NONE);
  int64_t key = first;
  for (int64_t i = 0; i < count; ++i, ++key) {
    if (key == hole) ++key;
    kvtier_bytes block;
    EXPECT(kvtier_hit_key_index(part.hit, (size_t)i) == key);
    EXPECT(kvtier_hit_block(part.hit, (size_t)i, &block, NULL) == KVTIER_OK);
    EXPECT(((const char*)block.data)[BLOCK_BYTES - 1] == (char)('a' + key));
  }
  EXPECT(kvtier_hit_valid(part.hit) == 1);
  kvtier_release_hits(&part.hit, 1);
  return 0;
}

static int test_parts(kvtier_client* client, kvtier_space space) {
  if (put_blocks(client, space, 3) != 0) return step;
  const kvtier_sequence both[2] = {{space, 0, keys, KEYS, {NULL, 0}, 0, 0, NULL, NULL},
                                   {space, 1, keys, KEYS, {NULL, 0}, 0, 0, NULL, NULL}};
  kvtier_in_parts ends[2] = {{99, 99, 99}, {99, 99, 99}};
  EXPECT(kvtier_submit_onboard_parts(client, both, 2, 0, WAIT, ends, 7) == KVTIER_OK);
  if (take_part(client, 0, 0, 2, -1) != 0) return step;
  if (take_part(client, 1, 0, 2, -1) != 0) return step;
  if (take_part(client, 0, 2, 1, -1) != 0) return step;
  if (take_part(client, 1, 2, 2, 3) != 0) return step;
  EXPECT(ends[0].blocks == 99); /* The poll filled it. */
  kvtier_completion end;
  if (poll_one(client, &end) != 0) return step;
  EXPECT(end.tag == 7 && end.op == KVTIER_OP_ONBOARD_PARTS && end.sequence == 0);
  EXPECT(end.blocks == 7 && end.hit == NULL);
  EXPECT(ends[0].blocks == 3 && ends[0].missed == KVTIER_MISSED_ABSENT && ends[0].reserved == 0);
  EXPECT(ends[1].blocks == 4 && ends[1].missed == KVTIER_MISSED_ABSENT);
  EXPECT(kvtier_poll(client, &end, 1) == 0);

  /* Parts do not count as calls, and parts that nobody polls are given back. */
  for (int i = 0; i < KVTIER_MAX_SUBMITTED; ++i) {
    EXPECT(kvtier_submit_onboard_parts(client, both, 1, 0, WAIT, ends, 8) == KVTIER_OK);
  }
  EXPECT(kvtier_submit_onboard_parts(client, both, 1, 0, WAIT, ends, 8) == KVTIER_AGAIN);
  for (int polled = 0; polled < 3;) {
    kvtier_completion next;
    if (poll_one(client, &next) != 0) return step;
    if (next.op == KVTIER_OP_ONBOARD_PARTS) ++polled;
    kvtier_release_hits(&next.hit, 1);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT(kvtier_submit_onboard_parts(client, both, 1, 0, WAIT, ends, 8) == KVTIER_OK);
  }
  EXPECT(kvtier_submit_onboard_parts(client, both, 1, 0, WAIT, ends, 8) == KVTIER_AGAIN);
  return 0;
}

static int test_absent(kvtier_client* client, kvtier_space space) {
  const kvtier_sequence run = {space, 0, keys, KEYS, {NULL, 0}, 0, 0, NULL, NULL};
  kvtier_in_parts end;
  kvtier_completion done;
  EXPECT(kvtier_submit_onboard_parts(client, &run, 1, 0, WAIT, &end, 7) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.op == KVTIER_OP_ONBOARD_PARTS && done.blocks == 0);
  EXPECT(end.blocks == 0 && end.missed == KVTIER_MISSED_UNREACHABLE);
  EXPECT(kvtier_submit_onboard_parts(client, &run, 1, 0, -1, &end, 7) == KVTIER_INVALID);
  EXPECT(kvtier_submit_onboard_parts(client, &run, 0, 0, WAIT, &end, 7) == KVTIER_INVALID);
  EXPECT(kvtier_submit_onboard_parts(client, &run, 1, 0, WAIT, NULL, 7) == KVTIER_INVALID);
  EXPECT(kvtier_submit_onboard_parts(NULL, &run, 1, 0, WAIT, &end, 7) == KVTIER_INVALID);
  EXPECT(kvtier_poll(client, &done, 1) == 0);
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
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space space;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  make_keys();
  const int failed = argc > 2 ? test_absent(client, space) : test_parts(client, space);
  kvtier_close(client);
  return failed;
}
