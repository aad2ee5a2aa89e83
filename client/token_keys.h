// Keys from tokens: one EngineKey for each full block of a sequence, chained over everything
// before it, so that two sequences share a key exactly when all their tokens up to there, and what
// else is hashed with them, are equal.
//
// They are for engines that hand over no keys of their own, and for programs that must compute the
// keys of an engine that does. The model, dtype and ranks that the tokens were run through belong
// to the space (core/space.h) and are not hashed here.
//
// Both forms hash a block in this way, where key[-1] is the root:
//   key[i] = SHA-256(before || key[i - 1] || tokens of block i || after)
//
// Plain, kvtier's own:
//   root    32 zero bytes
//   before  the 16 bytes "kvtier.tokens.v1"
//   tokens  how many, then each id, 4 bytes each, little-endian
//   after   `extra`: any bytes that tell apart what equal tokens do not, such as a salt, the name
//           of a LoRA adapter, the hash of an image
//   Tokens 0..15 are 51cb25a7b0db608c5e10ed9296f867d7c3fef15434d7db63e3f0bf3146cfafe1, 16..31
//   behind them f892b67b8173b70780003b164bb183329fc53da81fae1ef479a1504bdaeee976, and 0..15 with
//   the extra "tenant-a" 13eb634fa2a37ccb47795662f71f14323cc63b77041bfaad041a4bbe301ee48c.
//
// Vllm, what vLLM calls sha256_cbor: SHA-256 over the canonical CBOR (RFC 8949, 4.2) of
// [parent, [token ids], extra keys or null], parent being a byte string.
//   root    SHA-256 over the CBOR of the seed as text. The seed is the text of PYTHONHASHSEED;
//           without it "vllm-none-hash" in vLLM of late 2026, and random for each process in
//           earlier ones, whose keys nobody else can compute.
//   Not this form: vLLM's default "sha256", which hashes Python's pickle, and "xxhash_cbor".
//   KV events with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES show the last 8 bytes of a key, big-endian;
//   such a number is not a parent.
//   Tokens 0..15 are dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749.
//
// A token costs 9 ns in the plain form and 13 ns in vLLM's, in blocks of 16, and 4 and 8 ns in
// blocks of 64 (one core with SHA instructions; median of 15 rounds of 131,072 tokens).
#ifndef KVTIER_CLIENT_TOKEN_KEYS_H_
#define KVTIER_CLIENT_TOKEN_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/block_key.h"
#include "core/sha256.h"

namespace kvtier {

// The extra keys of vLLM's form, in their order: a tuple of texts, byte strings, integers, None
// and tuples of these. A connector must hash those that its version of vLLM hashes: the LoRA
// adapter with every block, images with the blocks they reach into, cache_salt with the first
// block alone.
class VllmExtraKeys {
 public:
  VllmExtraKeys& Text(absl::string_view utf8);
  VllmExtraKeys& Bytes(absl::string_view bytes);
  VllmExtraKeys& Integer(int64_t value);
  VllmExtraKeys& None();
  VllmExtraKeys& Tuple(const VllmExtraKeys& items);

  bool empty() const { return count_ == 0; }
  // Returns the array's CBOR.
  std::string Encoded() const;

 private:
  uint64_t count_ = 0;
  std::string items_;  // CBOR, one behind the other.
};

inline constexpr absl::string_view kVllmDefaultSeed = "vllm-none-hash";

// TokenHash says how a block is hashed, as above; a value.
class TokenHash {
 public:
  static TokenHash Plain(absl::string_view extra = {});
  // Empty extra keys are hashed as null, as vLLM does.
  static TokenHash Vllm(const VllmExtraKeys& extra_keys = {},
                        absl::string_view seed = kVllmDefaultSeed);

  enum class Form { kPlain, kVllm };
  Form form() const { return form_; }
  // Returns the parent of the first block.
  const Sha256Digest& root() const { return root_; }
  // Returns the bytes that are hashed after a block's tokens.
  const std::string& after() const { return after_; }

 private:
  TokenHash(Form form, const Sha256Digest& root, std::string after);

  Form form_;
  Sha256Digest root_;
  std::string after_;
};

// Token ids as engines have them.
using TokenIds = std::variant<std::span<const uint32_t>, std::span<const int32_t>,
                              std::span<const uint64_t>, std::span<const int64_t>>;

// Returns the keys of the full blocks of `tokens`, 32 bytes each; a partial last block has none.
// `hashes` says how: one for all blocks, or one for each full block. `parent` is the key of the
// block before the first token; none: the sequence begins here. A sequence that has grown goes on
// from its last key, with the tokens behind that block.
// Errors: kInvalidArgument, naming the value: tokens_per_block is 0; another number of hashes;
// `parent` has not 32 bytes; a token id is negative, or above 2^32 - 1 (plain) or 2^63 - 1 (vLLM's
// form).
absl::StatusOr<std::vector<EngineKey>> HashTokens(
    std::span<const TokenHash> hashes, uint32_t tokens_per_block, TokenIds tokens,
    const std::optional<EngineKey>& parent = std::nullopt);
inline absl::StatusOr<std::vector<EngineKey>> HashTokens(
    const TokenHash& hash, uint32_t tokens_per_block, TokenIds tokens,
    const std::optional<EngineKey>& parent = std::nullopt) {
  return HashTokens(std::span(&hash, 1), tokens_per_block, tokens, parent);
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_TOKEN_KEYS_H_
