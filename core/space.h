// SpaceSpec says what makes two blocks compatible. Its digest is mixed into every
// BlockKey, so a change of any field is a miss, never a wrong block.
#ifndef KVTIER_CORE_SPACE_H_
#define KVTIER_CORE_SPACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/block_key.h"

namespace kvtier {

// Bumped when the bytes of a block or the digest below change their meaning.
inline constexpr uint32_t kSpaceFormatVersion = 1;

inline constexpr uint64_t kBlockAlignment = 4096;               // Bytes; O_DIRECT needs a page.
inline constexpr uint64_t kMaxBlockBytes = uint64_t{64} << 20;  // 64 MiB.
inline constexpr size_t kMaxSpaceTextBytes = 256;               // Per text field.
inline constexpr char kRawCodec[] = "raw";

struct SpaceSpec {
  // Texts are UTF-8; the digest is any bytes.
  std::string model{};           // Name as the engine gives it; 1..256 bytes.
  std::string weights_digest{};  // Digest of the weights, 1..256 bytes: a new epoch is a new space.
  std::string lora{};            // Adapter name and digest; empty: none.
  std::string dtype{};           // Type of the stored values, for example "bfloat16" or "fp8_e4m3".
  std::string layout{};          // Order of the axes inside a block, outermost first.
  uint32_t layers = 0;           // 1..4096.
  uint32_t kv_heads = 0;         // Heads of this shard; 1..4096.
  uint32_t head_dim = 0;         // 1..65536.
  uint32_t tokens_per_block = 0;  // 1..65536.
  uint32_t tensor_rank = 0;       // < tensor_size.
  uint32_t tensor_size = 1;       // 1..4096.
  uint32_t pipeline_rank = 0;     // < pipeline_size.
  uint32_t pipeline_size = 1;     // 1..4096.
  // Size of one stored block of this shard, 1..64 MiB; slots round up. Any size with codec "raw",
  // otherwise one of the two that space_codec.h has for the codec and the shape.
  uint64_t block_bytes = 0;
  // Encoding of stored blocks: "raw" (as the worker wrote them), "fp8_e4m3", "int8" or
  // "packed_exponents". Those other than "raw" are for bfloat16 in one of two layouts:
  // space_codec.h.
  std::string codec = kRawCodec;
  // Whether each block has a length of its own, 1 to block_bytes, which its reserve says. It is for
  // data that is not cut into the engine's blocks. Such a space needs codec "raw" and uses host
  // memory; no GPU pool fits it.
  bool any_length = false;

  // Errors: kInvalidArgument, naming the field and the value.
  absl::Status Validate() const;
  // Returns SHA-256 over the domain tag, kSpaceFormatVersion and every field, each length-prefixed,
  // in the order above. A codec of "raw" and any_length of false are left out, so that spaces that
  // were made before these fields existed keep their digests.
  SpaceDigest Digest() const;
};

// Returns the bytes that one block of `block_bytes` takes in a tier: rounded up to 4 KiB.
constexpr uint64_t SlotBytes(uint64_t block_bytes) {
  return (block_bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace kvtier

#endif  // KVTIER_CORE_SPACE_H_
