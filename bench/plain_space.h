// PlainSpace() returns the space of a benchmark whose blocks are bytes of no engine.
#ifndef KVTIER_BENCH_PLAIN_SPACE_H_
#define KVTIER_BENCH_PLAIN_SPACE_H_

#include <cstdint>
#include <string>

#include "core/space.h"

namespace kvtier::bench {

inline SpaceSpec PlainSpace(const std::string& model, uint64_t block_bytes) {
  return {.model = model,
          .weights_digest = "none",
          .dtype = "bytes",
          .layout = "bytes",
          .layers = 1,
          .kv_heads = 1,
          .head_dim = 1,
          .tokens_per_block = 16,
          .block_bytes = block_bytes};
}

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_PLAIN_SPACE_H_
