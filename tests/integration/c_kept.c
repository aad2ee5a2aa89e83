/* A worker in C that keeps a prefix for a time to live, lists and ends it, and drops it with what
 * descends from it. Run by kept_prefixes_test with the directory of a running agent's sockets. Exits
 * with the number of the step that failed. */
#include <string.h>

#include "kvtier_copy.h"
#include "kvtier_kept.h"
#include "tests/testing/c_program.h"

#define KEYS 3
#define BLOCK_BYTES 65536
#define WAIT KVTIER_DEFAULT_TIMEOUT

static char block[BLOCK_BYTES];
static const kvtier_bytes keys[KEYS + 1] = {
    {"c-kept-00", 9}, {"c-kept-01", 9}, {"c-kept-02", 9}, {"c-kept-03", 9}};

static int put_blocks(kvtier_client* client, kvtier_space space) {
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == KEYS);
  for (size_t i = 0; i < KEYS; ++i) {
    const kvtier_bytes piece = {block, BLOCK_BYTES};
    EXPECT(kvtier_copy_in(put, i, &piece, 1) == KVTIER_OK);
  }
  EXPECT(kvtier_commit(put) == KEYS);
  return 0;
}

static int test_kept(kvtier_client* client, const kvtier_sequence* run) {
  kvtier_kept kept;
  kvtier_kept again;
  uint64_t of_run = 0;
  int limit = -1;
  EXPECT(kvtier_keep(client, run, 1, 300000, WAIT, &kept, &of_run, &limit) == KEYS);
  EXPECT(of_run == KEYS && limit == KVTIER_KEEP_NONE && kept.blocks == KEYS);
  EXPECT(kept.ttl_left_ms > 200000 && kept.ttl_left_ms <= 300000);
  EXPECT(kvtier_keep(client, run, 1, 1000, WAIT, &again, NULL, NULL) == KEYS);
  EXPECT(again.id == kept.id && again.ttl_left_ms > 200000);
  EXPECT(kvtier_keep(client, run, 1, 999, WAIT, &again, NULL, NULL) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "ttl is 999ms; must be 1s to 1h") != NULL);
  EXPECT(kvtier_keep(client, run, 1, 1000, WAIT, NULL, NULL, NULL) == KVTIER_INVALID);

  kvtier_kept_use used;
  kvtier_kept_use quota;
  memset(&again, 0, sizeof(again));
  EXPECT(kvtier_list_kept(client, WAIT, &again, 1, &used, &quota) == 1);
  EXPECT(again.id == kept.id && again.blocks == KEYS && again.bytes == KEYS * BLOCK_BYTES);
  EXPECT(used.prefixes == 1 && used.blocks == KEYS && used.bytes == KEYS * BLOCK_BYTES);
  EXPECT(quota.prefixes == 256 && quota.bytes > used.bytes);
  EXPECT(kvtier_list_kept(client, WAIT, NULL, 0, NULL, NULL) == 1);
  EXPECT(kvtier_end_kept(client, kept.id + 1, WAIT) == 0);
  EXPECT(kvtier_end_kept(client, kept.id, WAIT) == 1);
  EXPECT(kvtier_list_kept(client, WAIT, NULL, 0, NULL, NULL) == 0);
  return 0;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  const kvtier_options options = {.struct_size = sizeof(options), .socket_dir = argv[1]};
  const kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_client* client = NULL;
  kvtier_space space = 0;
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  if (put_blocks(client, space) != 0) return 100;
  const kvtier_sequence run = {space, 0, keys, KEYS + 1, {NULL, 0}, 0, 0, NULL, NULL};
  if (test_kept(client, &run) != 0) return 101;
  const kvtier_sequence head = {space, 0, keys, 1, {NULL, 0}, 0, 0, NULL, NULL};
  uint64_t held = 9;
  uint32_t more = 9;
  EXPECT(kvtier_drop_prefix(client, &head, 1, WAIT, &held, &more) == KEYS);
  EXPECT(held == 0 && more == 0);
  kvtier_close(client);
  return 0;
}
