/* Tests keys from tokens in C: known answers, continuations of a parent, and arguments that are
 * refused by name. Exits with the number of the step that failed. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kvtier.h"
#include "tests/testing/c_program.h"

#define TOKENS 32
#define KEY_BYTES 32

static int32_t tokens[TOKENS];
static unsigned char keys[TOKENS][KEY_BYTES];

static kvtier_token_hash make_hash(uint32_t form, uint32_t tokens_per_block) {
  kvtier_token_hash hash;
  memset(&hash, 0, sizeof(hash));
  hash.struct_size = sizeof(hash);
  hash.form = form;
  hash.tokens_per_block = tokens_per_block;
  return hash;
}

/* Returns whether keys[i] begins with these 8 bytes; test_python_token_keys.py checks whole keys.
 */
static int begins_with(size_t i, uint64_t bytes) {
  uint64_t first = 0;
  for (size_t j = 0; j < sizeof(first); ++j) first = first << 8 | keys[i][j];
  return first == bytes;
}

static int test_known_answers(void) {
  kvtier_token_hash plain = make_hash(KVTIER_KEYS_PLAIN, 16);
  EXPECT(kvtier_token_keys(&plain, tokens, TOKENS, 4, keys, 2) == 2);
  EXPECT(begins_with(0, 0x51cb25a7b0db608cU) && begins_with(1, 0xf892b67b8173b707U));
  plain.extra.data = "tenant-a";
  plain.extra.size = 8;
  EXPECT(kvtier_token_keys(&plain, tokens, 16, 4, keys, TOKENS) == 1);
  EXPECT(begins_with(0, 0x13eb634fa2a37ccbU));

  kvtier_token_hash vllm = make_hash(KVTIER_KEYS_VLLM, 16);
  EXPECT(kvtier_token_keys(&vllm, tokens, TOKENS, 4, keys, 2) == 2);
  EXPECT(begins_with(0, 0xdc918a88b139e5afU) && begins_with(1, 0xc300ec275d7bf08aU));
  EXPECT(kvtier_token_keys(&vllm, tokens, 15, 4, NULL, 0) == 0);
  vllm.seed = "vllm-none-hash";
  EXPECT(kvtier_token_keys(&vllm, tokens, TOKENS, 4, keys, 2) == 2);
  EXPECT(begins_with(0, 0xdc918a88b139e5afU));
  vllm.seed = "0";
  EXPECT(kvtier_token_keys(&vllm, tokens, TOKENS, 4, keys, 2) == 2);
  EXPECT(!begins_with(0, 0xdc918a88b139e5afU));
  return 0;
}

static int test_extra_keys(void) {
  const int64_t one_to_four[] = {1, 2, 3, 4};
  const char s30[] = "ssssssssssssssssssssssssssssss";
  const kvtier_extra_key extra_keys[] = {
      {.kind = KVTIER_EXTRA_TUPLE, .integer = 3},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {"lora", 4}},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {"adapter", 7}},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {"/l", 2}},
      {.kind = KVTIER_EXTRA_TUPLE, .integer = 3},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {"mm", 2}},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {"img", 3}},
      {.kind = KVTIER_EXTRA_INTEGER, .integer = -3},
      {.kind = KVTIER_EXTRA_INTEGER, .integer = 7},
      {.kind = KVTIER_EXTRA_BYTES, .bytes = {"\1\2", 2}},
      {.kind = KVTIER_EXTRA_NONE},
      {.kind = KVTIER_EXTRA_TEXT, .bytes = {s30, 30}},
      {.kind = KVTIER_EXTRA_INTEGER, .integer = -25},
      {.kind = KVTIER_EXTRA_INTEGER, .integer = (int64_t)1 << 40},
  };
  kvtier_token_hash hash = make_hash(KVTIER_KEYS_VLLM, 4);
  hash.extra_keys = extra_keys;
  hash.extra_count = sizeof(extra_keys) / sizeof(extra_keys[0]);
  EXPECT(kvtier_token_keys(&hash, one_to_four, 4, 8, keys, 1) == 1);
  EXPECT(begins_with(0, 0xe5e4275604df0310U));

  kvtier_extra_key wrong[2] = {{.kind = KVTIER_EXTRA_TUPLE, .integer = 2},
                               {.kind = KVTIER_EXTRA_NONE}};
  hash.extra_keys = wrong;
  hash.extra_count = 2;
  EXPECT(kvtier_token_keys(&hash, one_to_four, 4, 8, keys, 1) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "extra_keys[0].integer is 2") != NULL);
  wrong[0].integer = 1;
  EXPECT(kvtier_token_keys(&hash, one_to_four, 4, 8, keys, 1) == 1);
  wrong[1].kind = KVTIER_EXTRA_TUPLE;
  EXPECT(kvtier_token_keys(&hash, one_to_four, 4, 8, keys, 1) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "extra_keys[1] is a tuple in a tuple") != NULL);
  wrong[1].kind = 5;
  EXPECT(kvtier_token_keys(&hash, one_to_four, 4, 8, keys, 1) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "extra_keys[1].kind is 5") != NULL);
  return 0;
}

static int test_going_on(void) {
  unsigned char first[KEY_BYTES];
  for (uint32_t form = KVTIER_KEYS_PLAIN; form <= KVTIER_KEYS_VLLM; ++form) {
    kvtier_token_hash hash = make_hash(form, 8);
    EXPECT(kvtier_token_keys(&hash, tokens, 20, 4, keys, 2) == 2);
    memcpy(first, keys[1], KEY_BYTES);
    hash.parent.data = first;
    hash.parent.size = KEY_BYTES;
    EXPECT(kvtier_token_keys(&hash, tokens + 16, TOKENS - 16, 4, keys[2], 2) == 2);
    memcpy(first, keys[3], KEY_BYTES);
    hash.parent.size = 0;
    EXPECT(kvtier_token_keys(&hash, tokens, TOKENS, 4, keys, 4) == 4);
    EXPECT(memcmp(keys[3], first, KEY_BYTES) == 0);
  }
  return 0;
}

static int refused(const kvtier_token_hash* hash, size_t token_bytes, size_t capacity,
                   const char* said) {
  return kvtier_token_keys(hash, tokens, TOKENS, token_bytes, keys, capacity) == KVTIER_INVALID &&
         strstr(kvtier_last_error(), said) != NULL;
}

static int test_mistakes(void) {
  kvtier_token_hash hash = make_hash(KVTIER_KEYS_PLAIN, 16);
  EXPECT(refused(NULL, 4, 2, "hash is NULL"));
  EXPECT(refused(&hash, 2, 2, "token_bytes is 2"));
  EXPECT(refused(&hash, 4, 1, "room for 1 keys; must have room for 2"));
  EXPECT(kvtier_token_keys(&hash, NULL, 1, 4, keys, 2) == KVTIER_INVALID);
  EXPECT(kvtier_token_keys(&hash, tokens, TOKENS, 4, NULL, 2) == KVTIER_INVALID);
  hash.seed = "0";
  EXPECT(refused(&hash, 4, 2, "seed and extra_keys"));
  hash.seed = NULL;
  hash.parent.data = "12345678";
  hash.parent.size = 8;
  EXPECT(refused(&hash, 4, 2, "parent of 8 bytes"));
  hash.parent.size = 7;
  EXPECT(refused(&hash, 4, 2, "parent: "));
  hash.parent.size = 0;
  hash.form = 2;
  EXPECT(refused(&hash, 4, 2, "form is 2"));
  hash.form = KVTIER_KEYS_VLLM;
  hash.extra.data = "x";
  hash.extra.size = 1;
  EXPECT(refused(&hash, 4, 2, "extra is given"));
  hash.extra.size = 0;
  hash.tokens_per_block = 0;
  EXPECT(refused(&hash, 4, 2, "tokens_per_block is 0"));
  hash.tokens_per_block = 16;
  hash.struct_size = 8;
  EXPECT(refused(&hash, 4, 2, "struct_size"));
  hash.struct_size = sizeof(hash);
  tokens[5] = -1;
  EXPECT(refused(&hash, 4, 2, "tokens[5] is -1"));
  tokens[5] = 5;
  return 0;
}

int main(void) {
  for (int i = 0; i < TOKENS; ++i) tokens[i] = i;
  int failed = test_known_answers();
  if (failed == 0) failed = test_extra_keys();
  if (failed == 0) failed = test_going_on();
  if (failed == 0) failed = test_mistakes();
  return failed;
}
