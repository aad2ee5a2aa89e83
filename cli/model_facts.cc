#include "cli/model_facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

constexpr size_t kMaxShownType = 40;  // Bytes of an unknown type that an error shows.

// Checks the fact that `option` gives.
absl::Status CheckFact(const char* name, const char* option, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be 1 to ", most, ", not ", value, "; give ", option));
}

// Returns the pairs of tokens that attend in a context, when each attends to `window` at most.
double PairsIn(uint64_t tokens, uint64_t window) {
  const auto all = static_cast<double>(tokens);
  const auto seen = static_cast<double>(std::min(tokens, window));
  return seen * (seen + 1) / 2 + (all - seen) * seen;
}

}  // namespace

std::optional<uint64_t> BitsOfType(absl::string_view dtype) {
  static constexpr std::pair<absl::string_view, uint64_t> kTypes[] = {
      {"fp32", 32},       {"float32", 32}, {"float", 32},   {"fp16", 16},
      {"float16", 16},    {"half", 16},    {"bf16", 16},    {"bfloat16", 16},
      {"fp8", 8},         {"fp8_e4m3", 8}, {"fp8_e5m2", 8}, {"float8_e4m3fn", 8},
      {"float8_e5m2", 8}, {"int8", 8},     {"fp4", 4},      {"int4", 4}};
  const std::string name =
      absl::AsciiStrToLower(absl::StripPrefix(dtype, absl::string_view("torch.")));
  for (const auto& [known, bits] : kTypes) {
    if (name == known) return bits;
  }
  return std::nullopt;
}

absl::Status ModelFacts::Check() const {
  KVT_RETURN_IF_ERROR(CheckFact("layers", "--layers", layers, kMaxLayers));
  if (latent_dim == 0 && !has_several_shapes()) {
    KVT_RETURN_IF_ERROR(CheckFact("kv_heads", "--kv-heads", kv_heads, kMaxHeads));
    KVT_RETURN_IF_ERROR(CheckFact("head_dim", "--head-dim", head_dim, kMaxHeadDim));
  } else if (latent_dim != 0) {
    KVT_RETURN_IF_ERROR(CheckFact("latent", "--latent", latent_dim, kMaxHeadDim));
  }
  const bool are_shared = kv_heads == 0 || latent_dim != 0 || heads % kv_heads == 0;
  if (heads > kMaxHeads || !are_shared) {
    return absl::InvalidArgumentError(absl::StrCat("heads must be a multiple of kv_heads (",
                                                   kv_heads, ") up to ", kMaxHeads, ", not ", heads,
                                                   "; give --heads"));
  }
  if (attention_width > kMaxHeads * kMaxHeadDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("the heads of a layer must have ", kMaxHeads * kMaxHeadDim,
                     " numbers at most, not ", attention_width, "; give --heads and --head-dim"));
  }
  if ((window == 0) != (window_layers == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "window and window_layers must both be given or neither, not ", window, " and ",
        window_layers, "; give ", window == 0 ? "--window" : "--window-layers"));
  }
  if (window > kMaxContextTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("window must be ", kMaxContextTokens, " tokens at most, not ", window));
  }
  if (window_layers > layers) {
    return absl::InvalidArgumentError(absl::StrCat("window_layers must be at most layers (", layers,
                                                   "), not ", window_layers,
                                                   "; give --window-layers"));
  }
  const std::optional<uint64_t> bits = BitsOfType(dtype);
  if (!bits.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype must be fp32, fp16, bf16, fp8, int8, fp4 or int4, not '",
                     absl::string_view(dtype).substr(0, kMaxShownType), "'; give --dtype"));
  }
  if (LayerNumbers() * *bits % 8 != 0 || full_numbers * *bits % 8 != 0 ||
      window_numbers * *bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", dtype,
                     " gives a token of each layer no whole number of bytes; name a wider one"));
  }
  return absl::OkStatus();
}

std::string ModelFacts::AttentionName() const {
  if (latent_dim != 0) return "multi-head latent";
  if (has_several_shapes()) return "grouped-query";
  if (heads == 0) return "";
  if (kv_heads == heads) return "multi-head";
  return kv_heads == 1 ? "multi-query" : "grouped-query";
}

uint64_t ModelFacts::LayerNumbers() const {
  return latent_dim == 0 ? 2 * kv_heads * head_dim : latent_dim;
}

uint64_t ModelFacts::FullBytes() const {
  const uint64_t numbers =
      has_several_shapes() ? full_numbers : (layers - window_layers) * LayerNumbers();
  return numbers * *BitsOfType(dtype) / 8 + index_bytes;
}

uint64_t ModelFacts::WindowBytes() const {
  const uint64_t numbers = has_several_shapes() ? window_numbers : window_layers * LayerNumbers();
  return numbers * *BitsOfType(dtype) / 8;
}

uint64_t ModelFacts::TokenBytes() const { return FullBytes() + WindowBytes(); }

uint64_t ModelFacts::ContextBytes(uint64_t tokens) const {
  return FullBytes() * tokens + WindowBytes() * std::min(tokens, window);
}

uint64_t ModelFacts::TokensIn(uint64_t bytes) const {
  uint64_t fits = 0;
  uint64_t too_long = kMaxContextTokens + 1;
  while (too_long - fits > 1) {
    const uint64_t middle = fits + (too_long - fits) / 2;
    (ContextBytes(middle) <= bytes ? fits : too_long) = middle;
  }
  return fits;
}

std::optional<double> ModelFacts::PrefillOperations(uint64_t tokens) const {
  const auto width = static_cast<double>(attention_width != 0 ? attention_width : heads * head_dim);
  if (parameters == 0 || width == 0) return std::nullopt;
  const double pairs = static_cast<double>(layers - window_layers) * PairsIn(tokens, tokens) +
                       static_cast<double>(window_layers) * PairsIn(tokens, window);
  return 2 * static_cast<double>(parameters) * static_cast<double>(tokens) + 4 * width * pairs;
}

}  // namespace kvtier::cli
