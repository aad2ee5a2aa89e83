// Caller is one worker with blocks of two sizes in host memory, whose calls are measured beside an
// empty call of gRPC.
#ifndef KVTIER_BENCH_CALLER_H_
#define KVTIER_BENCH_CALLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/empty_call.h"
#include "client/client.h"

namespace kvtier::bench {

// Number of small blocks, of 4 KiB, that a caller has, and of blocks in one commit.
inline constexpr size_t kCallerKeys = 8192;
inline constexpr size_t kCommittedBlocks = 64;

// Returns `count` keys, which no other set has.
std::vector<EngineKey> KeysOfSet(uint64_t set, size_t count);

class Caller {
 public:
  // Connects, and puts the blocks; waits up to a minute for host memory that the tenant is to have.
  // Errors: kUnavailable, not all blocks found room; Client::Open()'s.
  static absl::StatusOr<std::unique_ptr<Caller>> Open(ClientOptions options);

  // SendNothing() and the functions after it make one call. Errors: kUnavailable, the agent did not
  // answer as it must.
  absl::Status SendNothing() { return empty_call_->Send(); }
  absl::Status Ping();
  absl::Status Match(size_t keys);
  // Onboards so many blocks of 4 KiB, and releases them.
  absl::Status OnboardSmall(size_t keys);
  // Onboards 64 blocks of 2 MiB, and releases them.
  absl::Status OnboardLarge();
  // Reserves and fills kCommittedBlocks blocks of a set; the caller commits.
  absl::StatusOr<ReservedBlocks> Fill(uint64_t set);
  static absl::Status ExpectCommitted(size_t blocks);

 private:
  Caller();
  absl::StatusOr<ReservedBlocks> Filled(SpaceHandle space, std::span<const EngineKey> keys,
                                        uint64_t block_bytes);
  // Puts the blocks for which there is room.
  absl::Status Put(SpaceHandle space, std::span<const EngineKey> keys, uint64_t block_bytes);
  // Errors: kUnavailable, not all blocks are in host memory.
  absl::Status CheckThere();
  absl::Status Onboard(SpaceHandle space, std::span<const EngineKey> keys);

  std::unique_ptr<EmptyCall> empty_call_;
  std::unique_ptr<Client> client_;
  SpaceHandle small_{};
  SpaceHandle large_{};
  const std::vector<EngineKey> small_keys_;
  const std::vector<EngineKey> large_keys_;
  const std::vector<std::byte> bytes_;  // Payload of every block.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_CALLER_H_
