/* A scheduler and a worker in C that hand blocks over by a ticket, and a run that is put whole. Run
 * by tickets_test with the directory of a running agent's sockets. Exits with the number of the
 * step that failed. */
#include <poll.h>
#include <string.h>

#include "kvtier_copy.h"
#include "kvtier_memory.h"
#include "kvtier_put_all.h"
#include "kvtier_tickets.h"
#include "tests/testing/c_program.h"

#define KEYS 3
#define BLOCK_BYTES 65536
#define WAIT KVTIER_DEFAULT_TIMEOUT

static char blocks[KEYS][BLOCK_BYTES];
static char read_back[BLOCK_BYTES];
static const kvtier_bytes keys[KEYS + 1] = {
    {"c-ticket-0", 10}, {"c-ticket-1", 10}, {"c-ticket-2", 10}, {"c-ticket-3", 10}};

static int put_blocks(kvtier_client* client, kvtier_space space) {
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve(client, space, NULL, keys, KEYS, KVTIER_HOST, WAIT, &put) == KEYS);
  for (int i = 0; i < KEYS; ++i) {
    memset(blocks[i], 'a' + i, BLOCK_BYTES);
    const kvtier_bytes piece = {blocks[i], BLOCK_BYTES};
    EXPECT(kvtier_copy_in(put, (size_t)i, &piece, 1) == KVTIER_OK);
  }
  EXPECT(kvtier_commit(put) == KEYS);
  return 0;
}

static int redeem(kvtier_client* worker, kvtier_space space, const kvtier_ticket* ticket) {
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_redeem_ticket(worker, ticket, 0, NULL, 1, WAIT, &hit) == KVTIER_INVALID);
  EXPECT(kvtier_redeem_ticket(worker, ticket, 0, &space, 1, WAIT, &hit) == KEYS);
  for (size_t i = 0; i < KEYS; ++i) {
    const kvtier_room piece = {read_back, BLOCK_BYTES};
    EXPECT(kvtier_copy_out(hit, i, &piece, 1) == KVTIER_OK);
    EXPECT(memcmp(read_back, blocks[i], BLOCK_BYTES) == 0);
  }
  kvtier_release_hits(&hit, 1);
  EXPECT(kvtier_redeem_ticket(worker, ticket, 0, &space, 1, WAIT, &hit) == 0);
  kvtier_release_hits(&hit, 1);
  return 0;
}

static int poll_one(kvtier_client* client, kvtier_completion* completion) {
  struct pollfd readable = {.fd = kvtier_event_fd(client), .events = POLLIN, .revents = 0};
  EXPECT(poll(&readable, 1, 10000) == 1);
  EXPECT(kvtier_poll(client, completion, 1) == 1);
  return 0;
}

/* Takes and redeems a ticket, and deletes blocks, with calls that do not wait. */
static int test_submitted(kvtier_client* client, kvtier_space space, const kvtier_sequence* run) {
  kvtier_ticket ticket;
  kvtier_completion done;
  kvtier_hit* hit = NULL;
  uint64_t held = 77;
  EXPECT(kvtier_submit_take_ticket(client, run, 1, 0, 1000, 0, WAIT, &ticket, NULL, 1) ==
         KVTIER_INVALID);
  EXPECT(kvtier_submit_take_ticket(client, run, 1, 1, 60000, 0, WAIT, &ticket, &held, 1) ==
         KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 1 && done.op == KVTIER_OP_TAKE_TICKET && done.blocks == KEYS && held == KEYS);
  EXPECT(kvtier_submit_redeem_ticket(client, &ticket, 0, NULL, 1, WAIT, &hit, 2) == KVTIER_INVALID);
  EXPECT(kvtier_submit_redeem_ticket(client, &ticket, 0, &space, 1, WAIT, &hit, 2) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 2 && done.op == KVTIER_OP_REDEEM_TICKET && done.blocks == KEYS);
  EXPECT(kvtier_hit_count(hit) == KEYS);
  EXPECT(kvtier_submit_delete(client, run, 1, WAIT, &held, 3) == KVTIER_OK);
  if (poll_one(client, &done) != 0) return step;
  EXPECT(done.tag == 3 && done.op == KVTIER_OP_DELETE && done.blocks == 0 && held == KEYS);
  kvtier_release_hits(&hit, 1);
  return 0;
}

/* Returns the two pieces of block `index`; none if `user` is set. */
static const kvtier_bytes* pieces_of(void* user, size_t index, size_t* count) {
  static kvtier_bytes pieces[2];
  memset(blocks[0], 'A' + (int)index, BLOCK_BYTES);
  pieces[0].data = blocks[0];
  pieces[0].size = 1000;
  pieces[1].data = blocks[0] + 1000;
  pieces[1].size = BLOCK_BYTES - 1000;
  *count = 2;
  return user == NULL ? pieces : NULL;
}

static int test_put_all(kvtier_client* client, kvtier_space space) {
  static const kvtier_bytes run[3] = {{"put-all-0", 9}, {"put-all-1", 9}, {"put-all-2", 9}};
  kvtier_limits limits = {.struct_size = sizeof(limits)};
  char why_not[200] = "x";
  EXPECT(kvtier_get_limits(client, space, &limits, why_not, sizeof(why_not)) == KVTIER_OK);
  EXPECT(limits.usable == 1 && limits.slot_bytes == BLOCK_BYTES && why_not[0] == '\0');
  EXPECT(limits.host_slots > 0 && limits.slab_bytes == 1 << 20 && limits.staging_slots == 0);
  EXPECT(kvtier_get_limits(client, 99, &limits, NULL, 0) == KVTIER_INVALID);
  limits.struct_size = 8;
  EXPECT(kvtier_get_limits(client, space, &limits, NULL, 0) == KVTIER_INVALID);
  kvtier_put_counts counts = {9, 9, 9};
  EXPECT(kvtier_put_all(client, space, NULL, &keys[KEYS], 1, pieces_of, &step, WAIT, &counts) ==
         KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "pieces is NULL") != NULL && counts.stored == 9);
  EXPECT(kvtier_put_all(client, space, NULL, run, 3, NULL, NULL, WAIT, &counts) == KVTIER_INVALID);
  EXPECT(kvtier_put_all(client, space, NULL, run, 3, pieces_of, NULL, WAIT, &counts) == KVTIER_OK);
  EXPECT(counts.stored == 3 && counts.present == 0 && counts.missed == 0);
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, run, 3, KVTIER_HOST, 0, WAIT, &hit) == 3);
  const kvtier_room piece = {read_back, BLOCK_BYTES};
  EXPECT(kvtier_copy_out(hit, 2, &piece, 1) == KVTIER_OK);
  EXPECT(read_back[0] == 'C' && read_back[BLOCK_BYTES - 1] == 'C');
  kvtier_release_hits(&hit, 1);
  EXPECT(kvtier_put_all(client, space, &run[0], &run[1], 2, pieces_of, NULL, WAIT, &counts) ==
         KVTIER_OK);
  EXPECT(counts.present == 2);
  return 0;
}

static int test_memory(kvtier_client* client, kvtier_space space) {
  static const kvtier_bytes key = {"memory-0", 8};
  kvtier_host_memory memory = {.struct_size = 8};
  kvtier_mapping* mapping = NULL;
  EXPECT(kvtier_get_host_memory(client, &memory, &mapping) == KVTIER_INVALID && mapping == NULL);
  memory.struct_size = sizeof(memory);
  EXPECT(kvtier_get_host_memory(client, &memory, NULL) == KVTIER_INVALID);
  EXPECT(kvtier_get_host_memory(client, &memory, &mapping) == KVTIER_OK && mapping != NULL);
  EXPECT(memory.is_staged == 0 && memory.read != NULL && memory.write != NULL);
  EXPECT(memory.read_bytes == memory.write_bytes && memory.read_bytes >= BLOCK_BYTES);
  kvtier_put* put = NULL;
  void* slot = NULL;
  size_t size = 0;
  EXPECT(kvtier_reserve(client, space, NULL, &key, 1, KVTIER_HOST, WAIT, &put) == 1);
  EXPECT(kvtier_put_slot(put, 0, &slot, &size) == KVTIER_RESERVED);
  const size_t offset = (size_t)((char*)slot - (char*)memory.write);
  EXPECT(offset <= memory.write_bytes - BLOCK_BYTES);
  memset(slot, 'm', BLOCK_BYTES);
  EXPECT(kvtier_commit(put) == 1);
  EXPECT(((const char*)memory.read)[offset + BLOCK_BYTES - 1] == 'm');
  kvtier_release_mapping(mapping);
  kvtier_release_mapping(NULL);
  return 0;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  const kvtier_options options = {.struct_size = sizeof(options), .socket_dir = argv[1]};
  const kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_client* scheduler = NULL;
  kvtier_client* worker = NULL;
  kvtier_space space = 0;
  kvtier_space workers_space = 0;
  EXPECT(kvtier_open(&options, &scheduler) == KVTIER_OK);
  EXPECT(kvtier_open(&options, &worker) == KVTIER_OK);
  EXPECT(kvtier_register_space(scheduler, &spec, &space) == KVTIER_OK);
  EXPECT(kvtier_register_space(worker, &spec, &workers_space) == KVTIER_OK);
  if (put_blocks(scheduler, space) != 0) return 100;

  const kvtier_sequence run = {space, 0, keys, KEYS + 1, {NULL, 0}, 0, 0, NULL, NULL};
  kvtier_ticket ticket;
  uint64_t held = 0;
  EXPECT(kvtier_take_ticket(scheduler, &run, 1, 0, 1000, 0, WAIT, &ticket, NULL) == KVTIER_INVALID);
  EXPECT(strstr(kvtier_last_error(), "redemptions is 0") != NULL);
  EXPECT(kvtier_take_ticket(scheduler, &run, 1, 2, 60000, 0, WAIT, &ticket, &held) == KEYS);
  EXPECT(held == KEYS);
  if (redeem(worker, workers_space, &ticket) != 0) return 101;
  uint64_t kept = 0;
  EXPECT(kvtier_delete(scheduler, &run, 1, WAIT, &kept) == 0 && kept == KEYS);
  kvtier_release_ticket(scheduler, &ticket); /* Rank 1 never comes. */
  if (test_submitted(scheduler, space, &run) != 0) return 102;
  if (test_put_all(scheduler, space) != 0) return 103;
  if (test_memory(scheduler, space) != 0) return 104;
  EXPECT(kvtier_unregister_space(scheduler, space) == KVTIER_OK);
  EXPECT(kvtier_unregister_space(scheduler, space) == KVTIER_INVALID);
  EXPECT(kvtier_unregister_space(NULL, space) == KVTIER_INVALID);
  kvtier_close(worker);
  kvtier_close(scheduler);
  return 0;
}
