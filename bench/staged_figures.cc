#include "bench/staged_figures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/block_load.h"
#include "bench/figure.h"
#include "bench/node_process.h"
#include "bench/plain_space.h"
#include "bench/streaming_copy.h"
#include "client/client.h"
#include "core/status_macros.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier::bench {
namespace {

constexpr size_t kStagedBlocks = 64;
constexpr uint64_t kStagedBlockBytes = uint64_t{2} << 20;
constexpr uint64_t kRoundBytes = kStagedBlocks * kStagedBlockBytes;
constexpr uint64_t kStagedWarmups = 2;  // The first rounds touch the region's pages.
constexpr uint64_t kStagedRounds = 21;

// Seconds of the parts of one round.
struct Round {
  double copy_in = 0;
  double commit = 0;
  double plain = 0;  // Faster of the two plain copies.
};

class StagedPuts {
 public:
  static absl::StatusOr<std::unique_ptr<StagedPuts>> Open(const std::string& socket_dir) {
    std::unique_ptr<StagedPuts> puts(new StagedPuts());
    KVT_ASSIGN_OR_RETURN(puts->client_, Client::Open({.socket_dir = socket_dir,
                                                      .default_timeout = absl::Seconds(10)}));
    KVT_ASSIGN_OR_RETURN(puts->space_,
                         puts->client_->RegisterSpace(PlainSpace("staged", kStagedBlockBytes)));
    return puts;
  }

  absl::StatusOr<Round> Put(uint64_t number) {
    KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client_->Reserve(space_, KeysOf(number)));
    if (reserved.reserved() != kStagedBlocks)
      return absl::UnavailableError("not every block got a slot");
    Round round;
    absl::Status status;
    round.copy_in = Seconds([&] {
      for (size_t i = 0; i < kStagedBlocks && status.ok(); ++i) {
        const ConstPiece piece = Block(engine_.bytes(), i);
        status = reserved.CopyIn(i, {&piece, 1});
      }
    });
    KVT_RETURN_IF_ERROR(status);
    size_t committed = 0;
    round.commit = Seconds([&] { committed = reserved.Commit(); });
    if (committed != kStagedBlocks) {
      return absl::UnavailableError(absl::StrCat("committed ", committed, " of ", kStagedBlocks));
    }
    const double copied = Seconds([&] {
      for (size_t i = 0; i < kStagedBlocks; ++i) {
        std::memcpy(Block(other_.bytes(), i).data(), Block(engine_.bytes(), i).data(),
                    kStagedBlockBytes);
      }
    });
    const double streamed = Seconds([&] {
      for (size_t i = 0; i < kStagedBlocks; ++i) {
        const Piece to = Block(other_.bytes(), i);
        const ConstPiece from = Block(engine_.bytes(), i);
        StreamingCopy({&to, 1}, {&from, 1});
      }
    });
    round.plain = std::min(copied, streamed);
    return round;
  }

 private:
  StagedPuts() : engine_(kRoundBytes), other_(kRoundBytes) {
    std::ranges::fill(engine_.bytes(), std::byte{7});
    std::ranges::fill(other_.bytes(), std::byte{8});
  }
  static Piece Block(std::span<std::byte> all, size_t i) {
    return all.subspan(i * kStagedBlockBytes, kStagedBlockBytes);
  }
  static std::vector<EngineKey> KeysOf(uint64_t round) {
    std::vector<EngineKey> keys;
    for (uint64_t i = 0; i < kStagedBlocks; ++i) {
      const uint64_t words[2] = {round, i};
      keys.push_back(*EngineKey::FromBytes({reinterpret_cast<const char*>(words), sizeof(words)}));
    }
    return keys;
  }

  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
  PageBuffer engine_;
  PageBuffer other_;
};

}  // namespace

absl::Status PrintStagedFigures() {
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<NodeProcess> node,
      NodeProcess::StartAgent("staged", {"--host_bytes=1GiB", "--worker_memory=staged",
                                         absl::StrCat("--staging_bytes=", kRoundBytes),
                                         "--host_scrub_bytes_per_second=0", "--byte_threads=1"}));
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<StagedPuts> puts,
                       StagedPuts::Open(node->socket_dir()));
  std::vector<double> pass;
  std::vector<double> pass_ratio;
  std::vector<double> together;
  std::vector<double> together_ratio;
  for (uint64_t i = 0; i < kStagedWarmups + kStagedRounds; ++i) {
    KVT_ASSIGN_OR_RETURN(const Round round, puts->Put(i));
    if (i < kStagedWarmups) continue;
    const double both = round.copy_in + round.commit;
    pass.push_back(kRoundBytes / round.commit / 1e9);
    pass_ratio.push_back(round.plain / round.commit);
    together.push_back(kRoundBytes / both / 1e9);
    together_ratio.push_back(round.plain / both);
  }
  PrintFigure("node.staged_pass.2MiB", Median(pass), "GB/s", Median(pass_ratio), "plain_copy");
  PrintFigure("node.staged_put.2MiB", Median(together), "GB/s", Median(together_ratio),
              "plain_copy");
  return absl::OkStatus();
}

}  // namespace kvtier::bench
