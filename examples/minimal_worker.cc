// The ten lines a worker needs, with pattern bytes where a model would be. Run it twice
// with an agent running: the first run computes four blocks, the second finds them.
//
//   minimal_worker [SOCKET_DIR]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/token_keys.h"

namespace {

constexpr size_t kBlocks = 4;

kvtier::SpaceSpec MinimalSpace() {
  kvtier::SpaceSpec spec;
  spec.model = "minimal-cc";
  spec.weights_digest = "0";
  spec.dtype = "float32";
  spec.layout = "layer,kv,token,head,dim";
  spec.layers = 2;
  spec.kv_heads = 4;
  spec.head_dim = 64;
  spec.tokens_per_block = 16;
  spec.block_bytes = 65536;  // 2 layers x K and V x 16 tokens x 4 heads x 64 values x 4 bytes.
  spec.codec = kvtier::kRawCodec;  // Stored as they are; client/block_codec.h has the other codecs.
  return spec;
}

// Keys of the prompt's tokens; an engine that has keys of its own hands them over instead.
std::vector<kvtier::EngineKey> MinimalKeys(uint32_t tokens_per_block) {
  std::vector<uint32_t> tokens(kBlocks * tokens_per_block);
  std::iota(tokens.begin(), tokens.end(), 0U);
  return *kvtier::HashTokens(kvtier::TokenHash::Plain(), tokens_per_block,
                             std::span<const uint32_t>(tokens));
}

// Copies the blocks that the node has into this worker's memory, and keeps those that verify.
std::vector<std::vector<std::byte>> Fetch(kvtier::Client* client, kvtier::SpaceHandle space,
                                          std::span<const kvtier::EngineKey> keys) {
  std::vector<std::vector<std::byte>> blocks;
  const auto hit = client->Onboard(space, keys, {.timeout = absl::Milliseconds(500)});
  if (!hit.ok()) return blocks;  // These keys cannot be asked for: our own mistake.
  for (size_t i = 0; i < hit->size(); ++i) {
    std::vector<std::byte> block(hit->bytes(i).size());  // An engine's is many pieces.
    const kvtier::Piece piece{block.data(), block.size()};
    if (!hit->CopyOut(i, {&piece, 1}).ok()) break;  // The block is a miss, and so are all after it.
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Computes block `i`.
std::vector<std::byte> Compute(size_t i, size_t bytes) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(i));
}

}  // namespace

int main(int argc, char** argv) {
  kvtier::ClientOptions options;
  options.socket_dir = argc > 1 ? argv[1] : "/run/kvtier";
  const auto client = kvtier::Client::Open(options);
  if (!client.ok()) {
    std::fprintf(stderr, "minimal_worker: %s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto space = (*client)->RegisterSpace(MinimalSpace());
  if (!space.ok()) {
    std::fprintf(stderr, "minimal_worker: %s\n", space.status().ToString().c_str());
    return 1;
  }
  const std::vector<kvtier::EngineKey> keys = MinimalKeys(MinimalSpace().tokens_per_block);
  const size_t found = Fetch(client->get(), *space, keys).size();
  std::printf("%zu of %zu blocks came from kvtier\n", found, keys.size());
  if (found == keys.size()) return 0;

  const std::span missing = std::span(keys).subspan(found);
  kvtier::ReserveOptions reserve;
  if (found > 0) reserve.parent = keys[found - 1];
  auto put = (*client)->Reserve(*space, missing, reserve);
  if (!put.ok()) return 1;
  for (size_t i = 0; i < put->size(); ++i) {
    if (put->state(i) != kvtier::ReservedBlocks::State::kReserved) continue;
    const std::vector<std::byte> block = Compute(found + i, MinimalSpace().block_bytes);
    const kvtier::ConstPiece piece{block.data(), block.size()};
    if (!put->CopyIn(i, {&piece, 1}).ok()) return 1;
  }
  std::printf("%zu blocks put\n", put->Commit());
  return 0;
}
