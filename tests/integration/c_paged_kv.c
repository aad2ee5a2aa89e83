/* A worker in C whose KV memory is the GPU pool: grows, forks, swaps. Run by paged_kv_test
 * with the directory of a running agent's sockets; its pool has slots of 64 KiB. Exits with
 * the number of the step that failed. */
#include <stdio.h>
#include <string.h>

#include "kvtier.h"
#include "tests/testing/c_program.h"

#define SLOTS 8
#define BLOCK_TOKENS 16
#define BLOCK_BYTES 65536

static unsigned char* block_at(const kvtier_kv* kv, uint64_t sequence, size_t block) {
  uint32_t slots[SLOTS];
  void* data = NULL;
  size_t size = 0;
  uint64_t slot_bytes = 0;
  if (kvtier_kv_slots(kv, sequence, slots, SLOTS) <= (int64_t)block) return NULL;
  if (kvtier_kv_memory(kv, &data, &size, &slot_bytes) != KVTIER_OK) return NULL;
  if ((slots[block] + 1) * slot_bytes > size) return NULL;
  return (unsigned char*)data + slots[block] * slot_bytes;
}

static int wrong_words_are_named(kvtier_client* client, kvtier_space space, kvtier_kv* kv) {
  kvtier_kv_options options = {sizeof(options), 0, BLOCK_TOKENS};
  kvtier_kv* none = NULL;
  EXPECT(kvtier_take_kv(client, space, &options, &none) == KVTIER_INVALID && none == NULL);
  options.slots = 1;
  options.block_tokens = 0;
  EXPECT(kvtier_take_kv(client, space, &options, &none) == KVTIER_INVALID && none == NULL);
  EXPECT(strstr(kvtier_last_error(), "block_tokens") != NULL);
  EXPECT(kvtier_take_kv(client, space, NULL, &none) == KVTIER_INVALID);
  EXPECT(kvtier_kv_append(kv, 12345, 1) == KVTIER_INVALID);
  EXPECT(kvtier_kv_append(NULL, 0, 1) == KVTIER_INVALID);
  EXPECT(kvtier_kv_slots(kv, 12345, NULL, 0) == KVTIER_INVALID);
  EXPECT(kvtier_kv_valid(NULL) == 0);
  return 0;
}

static int grow_fork_and_swap(kvtier_kv* kv) {
  uint64_t first = 0, second = 0, victims[2] = {0, 0};
  EXPECT(kvtier_kv_open(kv, 1, &first) == KVTIER_OK);
  EXPECT(kvtier_kv_append(kv, first, BLOCK_TOKENS + 8) == KVTIER_OK);
  unsigned char* block = block_at(kv, first, 1);
  EXPECT(block != NULL && block[0] == 0);
  block[0] = 7;
  EXPECT(kvtier_kv_fork(kv, first, &second) == KVTIER_OK);
  EXPECT(block_at(kv, second, 1) == block);
  EXPECT(kvtier_kv_append(kv, second, 1) == KVTIER_OK);
  EXPECT(block_at(kv, second, 0) == block_at(kv, first, 0));
  EXPECT(block_at(kv, second, 1) != block && block_at(kv, second, 1)[0] == 7);

  /* 3 of 8 slots are in use: 6 more have room only once the second sequence is swapped out. */
  EXPECT(kvtier_kv_append(kv, first, 6 * BLOCK_TOKENS) == KVTIER_EXHAUSTED);
  EXPECT(kvtier_kv_victims(kv, first, 1, victims, 2) == 1 && victims[0] == second);
  EXPECT(kvtier_kv_swap_out(kv, victims, 1) == KVTIER_OK);
  EXPECT(kvtier_kv_slots(kv, second, NULL, 0) == KVTIER_INVALID);
  EXPECT(kvtier_kv_append(kv, first, 6 * BLOCK_TOKENS - 8) == KVTIER_OK);
  kvtier_kv_stats stats = {.struct_size = sizeof(stats)};
  EXPECT(kvtier_get_kv_stats(kv, &stats) == KVTIER_OK);
  EXPECT(stats.granted_slots == SLOTS && stats.copied_blocks == 1 && stats.swapped_bytes > 0);
  EXPECT(kvtier_kv_truncate(kv, first, 8) == KVTIER_OK);
  EXPECT(kvtier_kv_swap_in(kv, second) == KVTIER_OK);
  EXPECT(block_at(kv, second, 1)[0] == 7);
  EXPECT(kvtier_kv_free(kv, first) == KVTIER_OK && kvtier_kv_free(kv, second) == KVTIER_OK);
  EXPECT(kvtier_get_kv_stats(kv, &stats) == KVTIER_OK && stats.free_slots == SLOTS);
  return 0;
}

static int the_first_in_line_comes_back(kvtier_kv* kv) {
  uint64_t both[2] = {0, 0}, next = 0;
  EXPECT(kvtier_kv_next_return(kv, &next) == 0);
  EXPECT(kvtier_kv_next_return(kv, NULL) == KVTIER_INVALID);
  for (int i = 0; i < 2; ++i) {
    EXPECT(kvtier_kv_open(kv, 1, &both[i]) == KVTIER_OK);
    EXPECT(kvtier_kv_append(kv, both[i], BLOCK_TOKENS) == KVTIER_OK);
  }
  EXPECT(kvtier_kv_swap_out(kv, both, 2) == KVTIER_OK);
  EXPECT(kvtier_kv_next_return(kv, &next) == 1 && next == both[0]);
  EXPECT(kvtier_kv_swap_in(kv, both[1]) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "first in line") != NULL);
  EXPECT(kvtier_kv_set_priority(kv, both[1], 2) == KVTIER_OK);
  EXPECT(kvtier_kv_next_return(kv, &next) == 1 && next == both[1]);
  EXPECT(kvtier_kv_swap_in(kv, both[1]) == KVTIER_OK &&
         kvtier_kv_swap_in(kv, both[0]) == KVTIER_OK);
  EXPECT(kvtier_kv_set_priority(kv, 12345, 1) == KVTIER_INVALID);
  EXPECT(kvtier_kv_free(kv, both[0]) == KVTIER_OK && kvtier_kv_free(kv, both[1]) == KVTIER_OK);
  return 0;
}

int main(int argc, char** argv) {
  kvtier_options options;
  kvtier_client* client = NULL;
  kvtier_space space = 0;
  kvtier_kv* kv = NULL;
  const kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  const kvtier_kv_options kv_options = {sizeof(kv_options), SLOTS, BLOCK_TOKENS};
  if (argc != 2) return 255;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.socket_dir = argv[1];
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  EXPECT(kvtier_take_kv(client, space, &kv_options, &kv) == SLOTS && kv != NULL);
  EXPECT(kvtier_kv_valid(kv) == 1);
  if (wrong_words_are_named(client, space, kv) != 0 || grow_fork_and_swap(kv) != 0 ||
      the_first_in_line_comes_back(kv) != 0) {
    return step;
  }
  kvtier_release_kv(kv);
  kvtier_close(client);
  return 0;
}
