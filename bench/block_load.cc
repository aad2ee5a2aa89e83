#include "bench/block_load.h"

#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/plain_space.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier::bench {

absl::StatusOr<std::unique_ptr<BlockLoad>> BlockLoad::Open(const std::string& socket_dir,
                                                           size_t blocks, uint64_t block_bytes) {
  std::unique_ptr<BlockLoad> load(new BlockLoad());
  KVT_ASSIGN_OR_RETURN(load->client_, Client::Open({.socket_dir = socket_dir,
                                                    .default_timeout = absl::Seconds(30)}));
  const SpaceSpec spec = PlainSpace("bench", block_bytes);
  KVT_ASSIGN_OR_RETURN(load->space_, load->client_->RegisterSpace(spec));
  load->keys_per_run_ = blocks;
  load->payload_.resize(block_bytes);
  std::mt19937_64 random(block_bytes);
  for (std::byte& byte : load->payload_) byte = static_cast<std::byte>(random());
  load->copy_.resize(load->run_bytes());
  return load;
}

std::vector<EngineKey> BlockLoad::KeysOf(uint64_t run) const {
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i < keys_per_run_; ++i) {
    const uint64_t words[2] = {run, i};
    keys.push_back(*EngineKey::FromBytes(
        absl::string_view(reinterpret_cast<const char*>(words), sizeof(words))));
  }
  return keys;
}

absl::Status BlockLoad::Put(uint64_t run) {
  KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client_->Reserve(space_, KeysOf(run)));
  for (size_t i = 0; i < reserved.size(); ++i) {
    if (reserved.state(i) != ReservedBlocks::State::kReserved) {
      return absl::UnavailableError(absl::StrCat("block ", i, " got no slot"));
    }
    std::memcpy(reserved.slot(i).data(), payload_.data(), payload_.size());
  }
  const size_t committed = reserved.Commit();
  if (committed != keys_per_run_) {
    return absl::UnavailableError(absl::StrCat("committed ", committed, " of ", keys_per_run_));
  }
  return absl::OkStatus();
}

absl::Status BlockLoad::Get(uint64_t run) {
  const OnboardOptions options{.timeout = absl::Seconds(30)};
  KVT_ASSIGN_OR_RETURN(const OnboardedBlocks blocks,
                       client_->Onboard(space_, KeysOf(run), options));
  if (blocks.size() != keys_per_run_) {
    return absl::UnavailableError(absl::StrCat("onboarded ", blocks.size(), " of ", keys_per_run_,
                                               "; ", client_->Stats().last_error));
  }
  return absl::OkStatus();
}

void BlockLoad::Copy() {
  for (size_t i = 0; i < keys_per_run_; ++i) {
    std::memcpy(copy_.data() + i * payload_.size(), payload_.data(), payload_.size());
  }
}

}  // namespace kvtier::bench
