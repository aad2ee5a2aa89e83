// BlockLoad is a run of random blocks that a benchmark puts and gets through one
// client, timed.
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

// Wall seconds of one call of `fn`.
template <typename Fn>
double Seconds(Fn fn) {
  const absl::Time start = absl::Now();
  fn();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

class BlockLoad {
 public:
  // Connects to the agent at `socket_dir`; each run has `blocks` of `block_bytes`.
  static absl::StatusOr<std::unique_ptr<BlockLoad>> Open(const std::string& socket_dir,
                                                         size_t blocks, uint64_t block_bytes);
  uint64_t run_bytes() const { return payload_.size() * keys_per_run_; }
  Client* client() { return client_.get(); }

  // Puts run number `run`: reserve, copy the payload into every slot, commit.
  // Errors: kUnavailable, fewer blocks were committed.
  absl::Status Put(uint64_t run);
  // Onboards the run and releases it; reads no byte. Errors: kUnavailable, fewer came.
  absl::Status Get(uint64_t run);
  // One copy of the same bytes from one private buffer to another: the reference.
  void Copy();

 private:
  BlockLoad() = default;
  std::vector<EngineKey> KeysOf(uint64_t run) const;

  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
  size_t keys_per_run_ = 0;
  std::vector<std::byte> payload_;  // Of one block; every block has the same.
  std::vector<std::byte> copy_;     // Of one run.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_BLOCK_LOAD_H_
