// ModelFacts is what decides how many bytes of keys and values (KV) a model keeps for each token,
// and how much work it is to compute them again.
//
// Every layer keeps a key and a value of each KV head (multi-head, grouped-query and multi-query
// attention differ in the number of KV heads alone), or one latent vector instead (multi-head
// latent attention). A layer with a sliding window keeps the last tokens only. Layers without
// attention keep nothing that grows with the context; they are not counted.
#ifndef KVTIER_CLI_MODEL_FACTS_H_
#define KVTIER_CLI_MODEL_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kvtier::cli {

// The largest facts that are taken for those of a model.
inline constexpr uint64_t kMaxLayers = 1024;
inline constexpr uint64_t kMaxHeads = 1024;
inline constexpr uint64_t kMaxHeadDim = 4096;
inline constexpr uint64_t kMaxContextTokens = 100'000'000;

// Returns the bits of one number of a type, by its name ("bf16", "torch.bfloat16"); nullopt: no
// type of keys and values that is known.
std::optional<uint64_t> BitsOfType(absl::string_view dtype);

struct ModelFacts {
  std::string name;
  uint64_t layers = 0;    // Layers with attention.
  uint64_t heads = 0;     // Query heads; 0: unknown.
  uint64_t kv_heads = 0;  // 0 where `latent_dim` is not, or layers have several shapes.
  uint64_t head_dim = 0;  // Numbers of a key or a value of one head.
  // Numbers of the latent vector of a token and layer, its rotated part included; 0: the model
  // keeps keys and values.
  uint64_t latent_dim = 0;
  uint64_t window = 0;         // Tokens that a layer with a sliding window keeps; 0: no such layer.
  uint64_t window_layers = 0;  // Layers with a sliding window.
  std::string dtype;           // Type of each number, as BitsOfType() has it.
  // Parameters that one token passes through (of a mixture of experts: the active ones); 0:
  // unknown.
  uint64_t parameters = 0;
  // Numbers over which the query heads of one layer compare and sum for each pair of tokens; 0:
  // heads x head_dim.
  uint64_t attention_width = 0;
  // Numbers of one token in all layers without a window and in all with one, where layers differ in
  // their heads; `kv_heads` and `head_dim` are 0 then. 0 and 0: all layers have the same heads.
  uint64_t full_numbers = 0;
  uint64_t window_numbers = 0;
  // Bytes of one token in all layers without a window, of the keys of an index that chooses the
  // tokens to attend to; 0: there is no index.
  uint64_t index_bytes = 0;

  bool has_several_shapes() const { return full_numbers != 0 || window_numbers != 0; }

  // Returns an error that names the fact that is missing or too large, and the option that gives
  // it.
  absl::Status Check() const;
  // Returns "grouped-query", "multi-head", "multi-query", "multi-head latent", or "" while the
  // number of query heads is unknown.
  std::string AttentionName() const;

  // REQUIRES of these: Check() is OK.
  // Returns the bytes that one more token takes before any window is full.
  uint64_t TokenBytes() const;
  // Returns the bytes of a context. REQUIRES: tokens <= kMaxContextTokens.
  uint64_t ContextBytes(uint64_t tokens) const;
  // Returns the length of the longest context that `bytes` hold, kMaxContextTokens at most.
  uint64_t TokensIn(uint64_t bytes) const;
  // Returns the floating-point operations that compute a context: two for each parameter and
  // token, and four for each pair of tokens that attend and each number of the attention width.
  // nullopt: `parameters` or the attention width is unknown.
  std::optional<double> PrefillOperations(uint64_t tokens) const;

 private:
  uint64_t LayerNumbers() const;  // Returns the numbers of one token in one layer.
  // Return the bytes of one token in all layers without a window, and in all with one.
  uint64_t FullBytes() const;
  uint64_t WindowBytes() const;
};

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_MODEL_FACTS_H_
