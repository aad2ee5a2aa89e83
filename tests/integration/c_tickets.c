/* A scheduler and a worker in C that hand blocks over by a ticket. Run by tickets_test with the
 * directory of a running agent's sockets. Exits with the number of the step that failed. */
#include <string.h>

#include "kvtier_copy.h"
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

  const kvtier_sequence run = {space, 0, keys, KEYS + 1, {NULL, 0}};
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
  kvtier_close(worker);
  kvtier_close(scheduler);
  return 0;
}
