// TestWorker is a worker whose blocks are a function of (tenant, key): it puts them
// through kvtier::Client and proves every byte that it reads.
#ifndef KVTIER_TESTS_TESTING_TEST_WORKER_H_
#define KVTIER_TESTS_TESTING_TEST_WORKER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/client.h"
#include "core/block_key.h"
#include "core/space.h"

namespace kvtier::testing {

// Blocks of the numbers `first`, `first` + 1, ..., which are one prefix.
struct Blocks {
  uint64_t first = 0;
  size_t count = 0;
};

struct TestWorkerOptions {
  std::string socket_dir;
  std::string tenant = "default";
  std::string secret;
  std::string group{};       // Share group whose blocks it works on; empty: the tenant's own.
  uint64_t tenant_seed = 1;  // Seed of the blocks' contents.
  uint64_t block_bytes = uint64_t{64} << 10;
  bool any_length = false;                    // Blocks have lengths that follow from their numbers.
  absl::Duration timeout = absl::Seconds(5);  // Timeout of calls that name none.
  DeviceUuid gpu_device{};                    // GPU whose pool the worker wants; none: any.
};

// TestWorker is thread-safe.
class TestWorker {
 public:
  // Opens the client and registers its space, which needs no agent.
  explicit TestWorker(const TestWorkerOptions& options);

  Client& client() { return *client_; }
  SpaceHandle space() const { return space_; }
  // Returns the block key of a number. REQUIRES: the worker works in no share group.
  BlockKey KeyOf(uint64_t number) const { return namer_.Name(TestKey(number)); }
  std::vector<EngineKey> KeysOf(Blocks blocks) const;
  const SpaceSpec& spec() const { return spec_; }
  void Fill(uint64_t number, std::span<std::byte> slot) const;
  uint64_t LengthOf(uint64_t number) const;

  // Puts the run, in calls of kMaxKeys at most. Returns how many blocks were committed; blocks that
  // the agent already has do not count.
  size_t Put(Blocks blocks, const ReserveOptions& options = {});
  // Onboards the run, proves each byte and releases the blocks. Returns where each block of the
  // leading run was found. A wrong byte in a valid lease fails the test.
  std::vector<BlockSource> Get(Blocks blocks, const OnboardOptions& options = {});
  // Onboards the run, proves each byte, and returns the blocks without releasing them.
  OnboardedBlocks Hold(Blocks blocks, const OnboardOptions& options = {});
  // Returns whether every byte is the block's own and none is missing.
  bool Proves(const OnboardedBlocks& onboarded, uint64_t first) const;

  bool AwaitConnected();  // Returns false if the worker is not connected within 10 s.
  uint64_t verified_blocks() const { return verified_; }
  // Returns the number of blocks given to the agent, each counted before its commit.
  uint64_t given_blocks() const { return given_; }

 private:
  static EngineKey TestKey(uint64_t number);

  const SpaceSpec spec_;
  const uint64_t tenant_seed_;
  const BlockNamer namer_;
  const std::unique_ptr<Client> client_;
  const SpaceHandle space_;
  std::atomic<uint64_t> verified_ = 0;
  std::atomic<uint64_t> given_ = 0;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_TEST_WORKER_H_
