/* Uses kvtier_sequences.h from C: c_sequences SOCKET_DIR [absent]. Exits with 0, or with the number
 * of the step that failed. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvtier_sequences.h"
#include "tests/testing/c_program.h"

#define KEYS 4
#define BLOCK_BYTES 5000
#define WAIT KVTIER_DEFAULT_TIMEOUT

static char key_bytes[KEYS][16];
static kvtier_bytes keys[KEYS];
static kvtier_space spaces[2];

static void make_keys(void) {
  for (int i = 0; i < KEYS; ++i) {
    memset(key_bytes[i], 'a' + i, sizeof(key_bytes[i]));
    keys[i].data = key_bytes[i];
    keys[i].size = sizeof(key_bytes[i]);
  }
}

static kvtier_sequence sequence(kvtier_space space, uint32_t is_set) {
  const kvtier_sequence made = {space, is_set, keys, KEYS, {NULL, 0}, 0, 0, NULL, NULL};
  return made;
}

/* Puts the blocks of the keys whose bit is set, each in a run of its own. */
static int put_blocks(kvtier_client* client, kvtier_space space, unsigned which) {
  for (int i = 0; i < KEYS; ++i) {
    if ((which >> i & 1) == 0) continue;
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
  EXPECT(poll(&readable, 1, 10000) == 1);
  EXPECT(kvtier_poll(client, completion, 1) == 1);
  return 0;
}

/* Checks the hits of a run in space 0 and a set in space 1, where each space has keys 0 and 2. */
static int check_hits(kvtier_hit* const* hits) {
  EXPECT(kvtier_hit_count(hits[0]) == 1 && kvtier_hit_key_index(hits[0], 0) == 0);
  EXPECT(kvtier_hit_count(hits[1]) == 2 && kvtier_hit_key_index(hits[1], 1) == 2);
  EXPECT(kvtier_hit_key_index(hits[1], 2) == KVTIER_INVALID);
  EXPECT(kvtier_hit_missed(hits[0]) == KVTIER_MISSED_ABSENT);
  EXPECT(kvtier_hit_missed(hits[1]) == KVTIER_MISSED_ABSENT);
  kvtier_bytes block;
  EXPECT(kvtier_hit_block(hits[1], 1, &block, NULL) == KVTIER_OK);
  EXPECT(((const char*)block.data)[BLOCK_BYTES - 1] == 'c');
  return 0;
}

static int check_matched(const kvtier_matched* matched) {
  EXPECT(matched[0].blocks == 1 && matched[0].local_blocks == 1);
  EXPECT(matched[1].blocks == 2 && matched[1].local_blocks == 2);
  EXPECT(matched[0].tiers[0] == KVTIER_HOST && matched[0].tiers[1] == KVTIER_NOT_HERE);
  EXPECT(matched[0].tiers[2] == KVTIER_NOT_HERE);
  EXPECT(matched[1].tiers[1] == KVTIER_NOT_HERE && matched[1].tiers[2] == KVTIER_HOST);
  EXPECT(matched[1].tiers[3] == KVTIER_NOT_HERE);
  return 0;
}

static int test_waiting(kvtier_client* client, const kvtier_sequence* both) {
  uint8_t tiers[2][KEYS];
  memset(tiers, 77, sizeof(tiers));
  kvtier_matched matched[2] = {{9, 9, tiers[0]}, {9, 9, tiers[1]}};
  EXPECT(kvtier_match_sequences(client, both, 2, 0, WAIT, matched) == KVTIER_OK);
  if (check_matched(matched) != 0) return step;
  matched[0].tiers = NULL;
  EXPECT(kvtier_match_sequences(client, both, 1, 0, WAIT, matched) == KVTIER_OK);

  kvtier_hit* hits[2];
  EXPECT(kvtier_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, hits) == 3);
  if (check_hits(hits) != 0) return step;
  kvtier_release_hits(hits, 2);
  const kvtier_sequence whole = {spaces[0], 0, keys, 1, {NULL, 0}, 0, 0, NULL, NULL};
  EXPECT(kvtier_onboard_sequences(client, &whole, 1, KVTIER_HOST, 0, WAIT, hits) == 1);
  EXPECT(kvtier_hit_missed(hits[0]) == KVTIER_MISSED_NONE);
  kvtier_release_hits(hits, 1);
  const kvtier_sequence none = {spaces[0], 1, &keys[1], 1, {NULL, 0}, 0, 0, NULL, NULL};
  EXPECT(kvtier_onboard_sequences(client, &none, 1, KVTIER_HOST, 0, WAIT, hits) == 0);
  EXPECT(hits[0] != NULL && kvtier_hit_count(hits[0]) == 0);
  EXPECT(kvtier_hit_missed(hits[0]) == KVTIER_MISSED_ABSENT);
  kvtier_release_hits(hits, 1);

  kvtier_sequence some = sequence(spaces[0], 1);
  some.max_tokens = 2 * 16 + 15; /* Covers key 0 and key 1; the latter is nowhere. */
  EXPECT(kvtier_onboard_sequences(client, &some, 1, KVTIER_HOST, 0, WAIT, hits) == 1);
  kvtier_release_hits(hits, 1);
  kvtier_matched group = {9, 9, tiers[0]};
  EXPECT(kvtier_match_group(client, spaces, 2, keys, KEYS, 0, WAIT, &group) == KVTIER_OK);
  EXPECT(group.blocks == 1 && group.local_blocks == 1 && tiers[0][0] == KVTIER_HOST);
  EXPECT(tiers[0][1] == KVTIER_NOT_HERE && tiers[0][3] == KVTIER_NOT_HERE);
  EXPECT(kvtier_match_group(client, NULL, 2, keys, KEYS, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(kvtier_match_group(client, spaces, 0, keys, KEYS, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "0 spaces in one call") != NULL);

  EXPECT(kvtier_prefetch_sequences(client, both, 2, 0, WAIT) == 3);
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve_sequences(client, both, 2, KVTIER_HOST, WAIT, &put) == 4);
  EXPECT(kvtier_put_count(put) == 2 * KEYS && kvtier_put_state(put, 6) == KVTIER_PRESENT);
  EXPECT(kvtier_put_state(put, 7) == KVTIER_RESERVED);
  kvtier_cancel_puts(&put, 1);

  kvtier_sequence secret[2] = {both[0], both[1]};
  secret[0].no_store = 1;
  EXPECT(kvtier_reserve_sequences(client, secret, 2, KVTIER_HOST, WAIT, &put) >= 0);
  EXPECT(kvtier_put_count(put) == 2 * KEYS && kvtier_put_state(put, 0) == KVTIER_NO_STORE);
  EXPECT(kvtier_put_state(put, 3) == KVTIER_NO_STORE);
  EXPECT(kvtier_put_state(put, 6) == KVTIER_PRESENT);
  kvtier_cancel_puts(&put, 1);
  secret[0].no_store = 2;
  EXPECT(kvtier_reserve_sequences(client, secret, 2, KVTIER_HOST, WAIT, &put) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences[0].no_store is 2; must be 0 or 1") != NULL);
  return 0;
}

static int test_submitted(kvtier_client* client, const kvtier_sequence* both) {
  uint8_t tiers[2][KEYS];
  kvtier_matched matched[2] = {{9, 9, tiers[0]}, {9, 9, tiers[1]}};
  kvtier_completion done;
  EXPECT(kvtier_submit_match_sequences(client, both, 2, 0, WAIT, matched, 1) == KVTIER_OK);
  EXPECT(matched[0].blocks == 9); /* The poll filled it. */
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 1 && done.op == KVTIER_OP_MATCH);
  EXPECT(done.blocks == 3 && done.local_blocks == 3);
  if (check_matched(matched) != 0) return step;

  kvtier_hit* hits[2] = {NULL, NULL};
  EXPECT(kvtier_submit_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, hits, 2) ==
         KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 2 && done.op == KVTIER_OP_ONBOARD && done.blocks == 3 && done.hit == NULL);
  if (check_hits(hits) != 0) return step;
  kvtier_release_hits(hits, 2);

  EXPECT(kvtier_submit_prefetch_sequences(client, both, 2, 0, WAIT, 3) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 3 && done.op == KVTIER_OP_PREFETCH && done.blocks == 3);
  const kvtier_sequence present = {spaces[0], 1, keys, 1, {NULL, 0}, 0, 0, NULL, NULL};
  EXPECT(kvtier_submit_reserve_sequences(client, &present, 1, KVTIER_HOST, WAIT, 4) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 4 && done.op == KVTIER_OP_RESERVE_ENTRIES && done.blocks == 0);
  EXPECT(kvtier_put_state(done.put, 0) == KVTIER_PRESENT);
  kvtier_cancel_puts(&done.put, 1);

  /* kvtier_close() frees completions that were not polled, and fills nothing. */
  EXPECT(kvtier_submit_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, hits, 5) ==
         KVTIER_OK);
  return 0;
}

static int test_mistakes(kvtier_client* client, const kvtier_sequence* both) {
  kvtier_sequence asked[KVTIER_MAX_SEQUENCES + 1];
  kvtier_hit* hits[KVTIER_MAX_SEQUENCES + 1];
  kvtier_matched matched[2] = {{0, 0, NULL}, {0, 0, NULL}};
  kvtier_put* put = NULL;
  const kvtier_bytes short_key = {"1234567", 7};
  for (int i = 0; i <= KVTIER_MAX_SEQUENCES; ++i) asked[i] = both[0];
  EXPECT(kvtier_onboard_sequences(client, asked, KVTIER_MAX_SEQUENCES + 1, KVTIER_HOST, 0, WAIT,
                                  hits) == KVTIER_INVALID);
  EXPECT(hits[0] == NULL && hits[KVTIER_MAX_SEQUENCES] == NULL);
  EXPECT(strstr(kvtier_last_error(), "257 sequences in one call; must be 1 to 256") != NULL);
  EXPECT(kvtier_match_sequences(client, NULL, 0, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "0 sequences") != NULL);
  EXPECT(kvtier_match_sequences(client, NULL, 2, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences is NULL") != NULL);
  asked[0].count = asked[1].count = 5000; /* Refused before a key is read. */
  EXPECT(kvtier_match_sequences(client, asked, 2, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "10000 keys in one call; must be at most 8192") != NULL);
  asked[1].count = (size_t)-1;
  EXPECT(kvtier_match_sequences(client, asked, 2, 0, WAIT, matched) == KVTIER_INVALID);
  asked[0] = both[0];
  asked[1].keys = &short_key;
  asked[1].count = 1;
  EXPECT(kvtier_match_sequences(client, asked, 2, 0, WAIT, matched) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences[1].keys[0]: ") != NULL);
  asked[1] = both[1];
  asked[1].parent = short_key;
  EXPECT(kvtier_reserve_sequences(client, asked, 2, KVTIER_HOST, WAIT, &put) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences[1].parent: ") != NULL && put == NULL);
  asked[1] = both[1];
  asked[1].is_set = 2;
  EXPECT(kvtier_prefetch_sequences(client, asked, 2, 0, WAIT) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences[1].is_set is 2") != NULL);
  asked[1] = both[1];
  asked[1].keys = NULL;
  EXPECT(kvtier_prefetch_sequences(client, asked, 2, 0, WAIT) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "sequences[1].keys is NULL") != NULL);
  EXPECT(kvtier_onboard_sequences(client, both, 2, KVTIER_DISK, 0, WAIT, hits) == KVTIER_INVALID);
  EXPECT(kvtier_onboard_sequences(NULL, both, 2, KVTIER_HOST, 0, WAIT, hits) == KVTIER_INVALID);
  EXPECT(kvtier_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_submit_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, NULL, 1) ==
         KVTIER_INVALID);
  EXPECT(kvtier_submit_match_sequences(client, both, 2, 0, WAIT, NULL, 1) == KVTIER_INVALID);
  EXPECT(kvtier_match_sequences(client, both, 2, 0, WAIT, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_hit_missed(NULL) == KVTIER_INVALID);
  return 0;
}

static int here_now(kvtier_client* client) {
  kvtier_hit* hit = NULL;
  const int64_t blocks = kvtier_onboard(client, spaces[0], keys, 2, KVTIER_HOST, 0, 0, &hit);
  kvtier_release_hits(&hit, 1);
  return blocks == 1 && kvtier_match(client, spaces[0], keys, 2, 0, 0, NULL) == 1 &&
         kvtier_prefetch(client, spaces[0], keys, 2, 0, 0) == 1;
}

/* A timeout of 0 returns what is here now, and a negative one is refused by name. */
static int test_timeouts(kvtier_client* client, const kvtier_sequence* both) {
  int tries = 1;
  while (tries < 1000 && !here_now(client)) ++tries; /* The machine may be too busy for 20 ms. */
  EXPECT(tries < 1000);
  const char* const said = "timeout_ms is -1; must not be negative";
  kvtier_hit* hits[2];
  kvtier_matched matched[2] = {{0, 0, NULL}, {0, 0, NULL}};
  kvtier_put* put = NULL;
  EXPECT(kvtier_onboard_sequences(client, both, 2, KVTIER_HOST, 0, -1, hits) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), said) != NULL);
  EXPECT(kvtier_onboard(client, spaces[0], keys, 1, KVTIER_HOST, 0, -1, hits) == KVTIER_INVALID);
  EXPECT(kvtier_match_sequences(client, both, 2, 0, -1, matched) == KVTIER_INVALID);
  EXPECT(kvtier_prefetch_sequences(client, both, 2, 0, -1) == KVTIER_INVALID);
  EXPECT(kvtier_reserve_sequences(client, both, 2, KVTIER_HOST, -1, &put) == KVTIER_INVALID);
  EXPECT(kvtier_submit_match_sequences(client, both, 2, 0, -1, matched, 1) == KVTIER_INVALID);
  EXPECT(kvtier_submit_onboard_sequences(client, both, 2, KVTIER_HOST, 0, -1, hits, 1) ==
         KVTIER_INVALID);
  EXPECT(kvtier_submit_prefetch_sequences(client, both, 2, 0, -1, 1) == KVTIER_INVALID);
  EXPECT(kvtier_submit_reserve_sequences(client, both, 2, KVTIER_HOST, -1, 1) == KVTIER_INVALID);
  EXPECT(kvtier_ping(client, -1) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), said) != NULL);
  EXPECT(kvtier_ping(client, 0) == KVTIER_INVALID);

  /* A refused commit leaves the put as it is; a durable one with a timeout of 0 still publishes. */
  EXPECT(kvtier_reserve(client, spaces[0], NULL, &keys[1], 1, KVTIER_HOST, WAIT, &put) == 1);
  void* slot = NULL;
  size_t size = 0;
  EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_RESERVED);
  EXPECT(kvtier_commit_durable(put, 0, -1) == KVTIER_INVALID);
  EXPECT(kvtier_submit_commit_durable(client, put, 0, -1, 1) == KVTIER_INVALID);
  EXPECT(kvtier_commit_durable(put, 0, 0) >= 0);
  EXPECT(kvtier_match(client, spaces[0], keys, KEYS, 0, WAIT, NULL) == 3);
  return 0;
}

/* Blocks of a space with any_length are as long as their reserve says. */
static int test_lengths(kvtier_client* client) {
  kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space space = 0;
  spec.any_length = 2;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "spec.any_length is 2; must be 0 or 1") != NULL);
  spec.any_length = 1;
  /* The struct of a program built before the field existed ends before it. */
  spec.struct_size = offsetof(kvtier_space_spec, any_length);
  kvtier_space fixed = 0;
  EXPECT(kvtier_register_space(client, &spec, &fixed) == KVTIER_OK && fixed == spaces[0]);
  spec.struct_size = sizeof(spec);
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK && space != fixed);

  uint64_t lengths[KEYS] = {1, 4096, 4097, BLOCK_BYTES};
  kvtier_sequence run = sequence(space, 0);
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) ==
         KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "lengths: 0 for 4 keys; must be one for each") != NULL);
  run.lengths = lengths;
  lengths[2] = BLOCK_BYTES + 1;
  EXPECT(kvtier_reserve_sequences(client, &run, 1, KVTIER_HOST, WAIT, &put) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "lengths[2] is 5001; must be 1 to 5000") != NULL);
  lengths[2] = 4097;
  EXPECT(kvtier_reserve_sequences(client, &run, 1, KVTIER_HOST, WAIT, &put) == KEYS);
  for (size_t i = 0; i < KEYS; ++i) {
    void* slot = NULL;
    size_t size = 0;
    EXPECT(kvtier_put_slot(put, i, &slot, &size) == KVTIER_RESERVED && size == lengths[i]);
    memset(slot, 'a' + (int)i, size);
  }
  EXPECT(kvtier_commit(put) == KEYS);
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, keys, KEYS, KVTIER_HOST, 0, WAIT, &hit) == KEYS);
  for (size_t i = 0; i < KEYS; ++i) {
    kvtier_bytes bytes;
    EXPECT(kvtier_hit_block(hit, i, &bytes, NULL) == KVTIER_OK && bytes.size == lengths[i]);
    EXPECT(((const char*)bytes.data)[bytes.size - 1] == 'a' + (int)i);
  }
  kvtier_release_hits(&hit, 1);
  return 0;
}

static int refuses_hint(kvtier_client* client, const kvtier_sequence* both,
                        const kvtier_reuse_hint* hint, const char* said) {
  kvtier_sequence asked[2] = {both[0], both[1]};
  asked[1].hint = hint;
  EXPECT(kvtier_advise(client, asked, 2, WAIT) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), said) != NULL);
  return 0;
}

static int test_hints(kvtier_client* client, const kvtier_sequence* both) {
  kvtier_reuse_hint hint;
  memset(&hint, 0, sizeof(hint));
  hint.struct_size = sizeof(hint);
  kvtier_sequence asked[2] = {both[0], both[1]};
  asked[0].hint = asked[1].hint = &hint;
  EXPECT(kvtier_advise(client, asked, 2, WAIT) == 3); /* A run of 1 and a set of 2. */
  hint.conversation = (kvtier_bytes){"session", 7};
  hint.has_turn = hint.has_priority = hint.will_not_return = 1;
  hint.priority = KVTIER_MAX_PRIORITY;
  hint.finish = KVTIER_FINISH_CANCELLED;
  EXPECT(kvtier_advise(client, asked, 2, WAIT) == 3);
  kvtier_completion done;
  EXPECT(kvtier_submit_advise(client, asked, 2, WAIT, 9) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 9 && done.op == KVTIER_OP_ADVISE && done.blocks == 3);
  EXPECT(kvtier_advise(NULL, asked, 2, WAIT) == KVTIER_INVALID);
  EXPECT(kvtier_advise(client, asked, 2, -1) == KVTIER_INVALID);

  char longest[KVTIER_MAX_CONVERSATION_BYTES + 1];
  memset(longest, 'c', sizeof(longest));
  hint.conversation = (kvtier_bytes){longest, KVTIER_MAX_CONVERSATION_BYTES};
  EXPECT(kvtier_advise(client, asked, 2, WAIT) == 3);
  hint.conversation.size = sizeof(longest);
  if (refuses_hint(client, both, &hint, "sequences[1].hint.conversation has 257")) return step;
  hint.conversation = (kvtier_bytes){NULL, 7};
  if (refuses_hint(client, both, &hint, "hint.conversation.data is NULL")) return step;
  hint.conversation.size = 0;
  hint.priority = KVTIER_MAX_PRIORITY + 1;
  if (refuses_hint(client, both, &hint, "hint.priority is 101; must be 0 to 100")) return step;
  hint.priority = 0;
  hint.finish = 5;
  if (refuses_hint(client, both, &hint, "hint.finish is 5")) return step;
  hint.finish = 0;
  hint.has_turn = 2;
  if (refuses_hint(client, both, &hint, "hint.has_turn is 2; must be 0 or 1")) return step;
  hint.has_turn = 0;
  hint.struct_size = sizeof(hint) - 1;
  if (refuses_hint(client, both, &hint, "hint.struct_size is too small")) return step;
  return 0;
}

static int test_absent(kvtier_client* client, const kvtier_sequence* both) {
  uint8_t tiers[KEYS] = {0};
  kvtier_matched matched[2] = {{9, 9, tiers}, {9, 9, NULL}};
  kvtier_hit* hits[2] = {NULL, NULL};
  kvtier_put* put = NULL;
  kvtier_completion done;
  EXPECT(kvtier_match_sequences(client, both, 2, 0, WAIT, matched) == KVTIER_OK);
  EXPECT(matched[1].blocks == 0 && tiers[0] == KVTIER_NOT_HERE && tiers[3] == KVTIER_NOT_HERE);
  EXPECT(kvtier_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, hits) == 0);
  EXPECT(kvtier_hit_missed(hits[1]) == KVTIER_MISSED_UNREACHABLE && !kvtier_hit_valid(hits[1]));
  kvtier_release_hits(hits, 2);
  EXPECT(kvtier_reserve_sequences(client, both, 2, KVTIER_HOST, WAIT, &put) == 0 && put == NULL);
  EXPECT(kvtier_prefetch_sequences(client, both, 2, 0, WAIT) == 0);
  EXPECT(kvtier_advise(client, both, 2, WAIT) == 0);
  EXPECT(kvtier_submit_onboard_sequences(client, both, 2, KVTIER_HOST, 0, WAIT, hits, 1) ==
         KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.blocks == 0 && hits[0] != NULL && hits[1] != NULL);
  kvtier_release_hits(hits, 2);
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
  EXPECT(kvtier_register_space(client, &spec, &spaces[0]) == KVTIER_OK);
  spec.lora = "other";
  EXPECT(kvtier_register_space(client, &spec, &spaces[1]) == KVTIER_OK);
  make_keys();
  const kvtier_sequence both[2] = {sequence(spaces[0], 0), sequence(spaces[1], 1)};

  int failed = 0;
  if (argc > 2) {
    failed = test_absent(client, both);
  } else {
    failed = put_blocks(client, spaces[0], 5);
    if (failed == 0) failed = put_blocks(client, spaces[1], 5);
    if (failed == 0) failed = test_waiting(client, both);
    if (failed == 0) failed = test_mistakes(client, both);
    if (failed == 0) failed = test_hints(client, both);
    if (failed == 0) failed = test_submitted(client, both);
    if (failed == 0) failed = test_timeouts(client, both);
    if (failed == 0) failed = test_lengths(client);
  }
  kvtier_close(client);
  return failed;
}
