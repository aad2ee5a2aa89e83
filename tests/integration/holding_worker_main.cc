// A worker that takes what it is told to and then does nothing, to be killed by a test:
//   kvtier-holding-worker SOCKET_DIR FIRST LEASES FIRST RESERVATIONS
// leases and reserves that many blocks from these numbers on and waits for its end.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "client/client.h"
#include "tests/testing/test_worker.h"

int main(int argc, char** argv) {
  using kvtier::testing::Blocks;
  if (argc != 6) return 2;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const Blocks leased = {.first = number(2), .count = number(3)};
  const Blocks reserved = {.first = number(4), .count = number(5)};
  kvtier::testing::TestWorker worker({.socket_dir = argv[1]});
  const kvtier::OnboardedBlocks leases = worker.Hold(leased);
  const absl::StatusOr<kvtier::ReservedBlocks> slots =
      worker.client().Reserve(worker.space(), worker.KeysOf(reserved));
  std::printf("holds %zu leases, %zu reservations\n", leases.size(),
              slots.ok() ? slots->reserved() : 0);
  std::fflush(stdout);
  pause();
  return 0;
}
