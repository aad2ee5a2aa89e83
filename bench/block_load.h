// BlockLoad is a run of random blocks that a benchmark puts and gets, with times, through one
// client.
#ifndef KVTIER_BENCH_BLOCK_LOAD_H_
#define KVTIER_BENCH_BLOCK_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"

namespace kvtier::bench {

// Returns the wall seconds of one call of `fn`.
template <typename Fn>
double Seconds(Fn fn) {
  const absl::Time start = absl::Now();
  fn();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

class BlockLoad {
 public:
  // Connects to the agent at `socket_dir`; each run has `blocks` blocks of `block_bytes`.
  static absl::StatusOr<std::unique_ptr<BlockLoad>> Open(const std::string& socket_dir,
                                                         size_t blocks, uint64_t block_bytes);
  uint64_t run_bytes() const { return payload_.size() * keys_per_run_; }
  Client* client() { return client_.get(); }

  // Puts run number `run`: reserves, copies the payload into every slot, commits. Errors:
  // kUnavailable, fewer blocks were committed.
  absl::Status Put(uint64_t run);
  // Onboards the run and releases it; reads no byte. Errors: kUnavailable, fewer blocks came.
  absl::Status Get(uint64_t run);
  // Copies the same bytes once from one private buffer to another, as the reference.
  void Copy();

 private:
  BlockLoad() = default;
  std::vector<EngineKey> KeysOf(uint64_t run) const;

  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
  size_t keys_per_run_ = 0;
  std::vector<std::byte> payload_;  // Payload of one block; all blocks have the same.
  std::vector<std::byte> copy_;     // Room for one run.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_BLOCK_LOAD_H_
