// A worker that takes what it is told to and then does nothing, to be killed by a test:
//   kvtier-holding-worker SOCKET_DIR FIRST LEASES FIRST RESERVATIONS
//       [hangup|gpu|gpu-hangup|gpu-memory]
// leases and reserves that many blocks from these numbers on and waits for its end. With
// "gpu" in the GPU pool, within a step that never ends; with "hangup" and "gpu-hangup" it
// hangs up first.
// With "gpu-memory" it takes as many slots as RESERVATIONS says as KV memory of its own.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "client/client.h"
#include "tests/testing/test_worker.h"

int main(int argc, char** argv) {
  using kvtier::testing::Blocks;
  if (argc != 6 && argc != 7) return 2;
  const std::string manner = argc == 7 ? argv[6] : "";
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const Blocks leased = {.first = number(2), .count = number(3)};
  const Blocks reserved = {.first = number(4), .count = number(5)};
  auto worker = std::make_unique<kvtier::testing::TestWorker>(
      kvtier::testing::TestWorkerOptions{.socket_dir = argv[1]});
  const bool on_gpu = manner.starts_with("gpu");
  const kvtier::OnboardTarget target =
      on_gpu ? kvtier::OnboardTarget::kGpu : kvtier::OnboardTarget::kHost;
  if (on_gpu && worker->client().BeginStep() == 0) return 1;
  if (manner == "gpu-memory") {
    const absl::StatusOr<kvtier::GrantedSlots> memory =
        worker->client().TakeSlots(worker->space(), static_cast<uint32_t>(reserved.count));
    std::printf("holds %zu slots\n", memory.ok() ? memory->size() : 0);
    std::fflush(stdout);
    pause();
    return 0;
  }
  const kvtier::OnboardedBlocks leases = worker->Hold(leased, {.target = target});
  const absl::StatusOr<kvtier::ReservedBlocks> slots =
      worker->client().Reserve(worker->space(), worker->KeysOf(reserved), {.target = target});
  std::printf("holds %zu leases, %zu reservations\n", leases.size(),
              slots.ok() ? slots->reserved() : 0);
  if (manner.ends_with("hangup")) {
    worker.reset();
    std::printf("hung up\n");
  }
  std::fflush(stdout);
  pause();
  return 0;
}
