#include "cli/model_config.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/config_heads.h"
#include "cli/config_layers.h"
#include "cli/config_members.h"
#include "cli/config_table.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

// Refuses a model of which a member that no reader knows may decide what is kept, and one that
// keeps something else than the keys and values of its tokens.
absl::Status CheckKnown(const ConfigMembers& members, const ModelFacts& given) {
  constexpr absl::string_view kAdvice =
      "; leave --config out, and give --layers, --kv-heads and --head-dim (or --latent), and "
      "--window and --window-layers if layers have one";
  const std::string type = members.SharedText({"model_type"});
  const absl::string_view why_not = WhyNotCounted(type);
  if (!why_not.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model_type '", type.substr(0, 40), "' ", why_not, "; name another model"));
  }
  if (members.IsTrueAnywhere("is_encoder_decoder")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is_encoder_decoder true shows an encoder, whose keys and values are kept beside those of "
        "the decoder and cannot be counted",
        kAdvice));
  }
  const std::string text_attention = members.Text({"use_bidirectional_attention"});
  // The text model of PaliGemma sees its prompt in both directions, and keeps it.
  const bool is_bidirectional = members.IsTrue("use_bidirectional_attention") && !members.IsPart();
  if (is_bidirectional || (!text_attention.empty() && text_attention != "vision")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "use_bidirectional_attention (", members.Shown("use_bidirectional_attention"),
        ") shows a model that encodes whole texts: there is no KV; name another model"));
  }
  std::string suspect = members.FirstOf(MemberRole::kSuspect);
  if (suspect.empty()) {
    suspect = members.Inner("attn_config").FirstOf(MemberRole::kSuspect, RoleInAttention);
    if (!suspect.empty()) suspect = absl::StrCat("attn_config has ", suspect, ", which");
  }
  if (!suspect.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(suspect, " may decide what is kept, and kvtier does not know it", kAdvice));
  }
  const std::string type_of_cache = members.FirstOf(MemberRole::kOfType);
  if (given.dtype.empty() && !type_of_cache.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(type_of_cache, " may change the type of keys and values; give --dtype"));
  }
  return absl::OkStatus();
}

// Returns the type to which quantization puts keys and values; empty: to none.
absl::StatusOr<std::string> QuantizedTypeOf(const ConfigMembers& members) {
  for (const char* name : {"quantization_config", "compression_config", "quantization"}) {
    const ConfigMembers quantization = members.SharedInner(name);
    for (const std::string& member : quantization.Names()) {
      const bool is_off =
          quantization.IsFalse(member.c_str()) || quantization.Shown(member) == "{}";
      if (!absl::StrContains(member, "kv_cache") || is_off) continue;
      const ConfigMembers scheme = quantization.Inner(member.c_str());
      KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> bits, scheme.Number({"num_bits"}));
      const std::string algorithm = quantization.Text({member.c_str()});
      if (bits == uint64_t{8}) return scheme.Text({"type"}) == "int" ? "int8" : "fp8";
      if (algorithm == "FP8" || algorithm == "INT8") return absl::AsciiStrToLower(algorithm);
      return absl::InvalidArgumentError(
          absl::StrCat(member.substr(0, 60), " of ", name, " is ", quantization.Shown(member),
                       ", a type of keys and values that is not known; give --dtype"));
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<ModelFacts> FactsFromConfig(absl::string_view json, const ModelFacts& given) {
  KVT_ASSIGN_OR_RETURN(const ConfigMembers members, ConfigMembers::FromJson(json));
  KVT_RETURN_IF_ERROR(CheckKnown(members, given));
  KVT_ASSIGN_OR_RETURN(const ConfigLayers layers, LayersOf(members, given));
  ModelFacts facts{
      .layers = layers.layers, .window = layers.window, .window_layers = layers.window_layers};
  if (given.dtype.empty()) {
    KVT_ASSIGN_OR_RETURN(facts.dtype, QuantizedTypeOf(members));
  }
  if (facts.dtype.empty()) facts.dtype = members.SharedText({"dtype", "torch_dtype"});
  KVT_RETURN_IF_ERROR(TakeHeads(members, given, layers, &facts));
  return facts;
}

absl::StatusOr<ModelFacts> FactsFromConfigFile(const std::string& path, const ModelFacts& given) {
  std::error_code ignored;
  const std::string file =
      std::filesystem::is_directory(path, ignored) ? absl::StrCat(path, "/config.json") : path;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || in.gcount() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " cannot be read, or is empty; name a model's config.json"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has more than ", kMaxConfigBytes,
                     " bytes, so it is no model's config.json; name another file"));
  }
  absl::StatusOr<ModelFacts> facts = FactsFromConfig(text, given);
  if (!facts.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", facts.status().message()));
  }
  facts->name = path;
  return facts;
}

}  // namespace kvtier::cli
