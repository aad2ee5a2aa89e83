/* Uses kvtier_traffic.h and kvtier_log.h from C: c_traffic SOCKET_DIR. Exits with 0, or with the
 * number of the step that failed. */
#include <string.h>

#include "kvtier_copy.h"
#include "kvtier_log.h"
#include "kvtier_traffic.h"
#include "tests/testing/c_program.h"

#define BLOCK_BYTES 5000
#define WAIT KVTIER_DEFAULT_TIMEOUT

static char said[4096];

static void note(void* context, int level, const char* line) {
  (void)context;
  if (level == KVTIER_LOG_INFO && strlen(said) + strlen(line) < sizeof(said)) strcat(said, line);
}

static int put_and_get(kvtier_client* client, kvtier_space space) {
  char bytes[BLOCK_BYTES] = {1};
  const kvtier_bytes keys[2] = {{"first-key", 9}, {"second-key", 10}};
  const kvtier_bytes piece = {bytes, sizeof(bytes)};
  kvtier_put* put = NULL;
  EXPECT(kvtier_reserve(client, space, NULL, keys, 1, KVTIER_HOST, WAIT, &put) == 1);
  EXPECT(kvtier_copy_in(put, 0, &piece, 1) == KVTIER_OK);
  EXPECT(kvtier_commit(put) == 1);
  kvtier_hit* hit = NULL;
  EXPECT(kvtier_onboard(client, space, keys, 2, KVTIER_HOST, 0, WAIT, &hit) == 1);
  kvtier_release_hits(&hit, 1);
  return 0;
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  kvtier_set_logger(note, NULL);
  const kvtier_options options = {.struct_size = sizeof(options), .socket_dir = argv[1]};
  kvtier_client* client = NULL;
  EXPECT(kvtier_open(&options, &client) == KVTIER_OK);
  const kvtier_space_spec spec = make_spec(BLOCK_BYTES);
  kvtier_space space = 0;
  EXPECT(kvtier_register_space(client, &spec, &space) == KVTIER_OK);
  if (put_and_get(client, space) != 0) return 100;

  kvtier_traffic traffic = {.struct_size = 1};
  EXPECT(kvtier_get_traffic(client, &traffic) == KVTIER_INVALID);
  EXPECT(kvtier_get_traffic(NULL, &traffic) == KVTIER_INVALID);
  traffic.struct_size = sizeof(traffic);
  EXPECT(kvtier_get_traffic(client, &traffic) == KVTIER_OK);
  EXPECT(traffic.onboarded_bytes == BLOCK_BYTES && traffic.committed_bytes == BLOCK_BYTES);
  EXPECT(traffic.onboarded_from[KVTIER_HOST] == 1 && traffic.onboarded_from[KVTIER_DISK] == 0);
  EXPECT(traffic.missed_because[KVTIER_MISSED_ABSENT] == 1);
  EXPECT(traffic.missed_because[KVTIER_MISSED_NONE] == 0);
  EXPECT(traffic.latencies[KVTIER_CALL_ONBOARD].calls == 1);
  EXPECT(traffic.latencies[KVTIER_CALL_ONBOARD].p99_us > 0);
  EXPECT(traffic.latencies[KVTIER_CALL_MATCH].calls == 0);

  kvtier_close(client);
  kvtier_set_logger(NULL, NULL);
  EXPECT(strstr(said, "kvtier: connected to the agent") != NULL);
  return 0;
}
