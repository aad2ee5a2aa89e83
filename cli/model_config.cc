#include "cli/model_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace kvtier::cli {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// Reads members of one object. Several names of one fact are those of different model families.
class Members {
 public:
  explicit Members(const Struct* object) : object_(*object) {}

  // Returns the first of the members that is there and not null; nullptr: none is.
  const Value* Find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto found = object_.fields().find(name);
      if (found != object_.fields().end() && !found->second.has_null_value()) {
        found_ = name;
        return &found->second;
      }
    }
    return nullptr;
  }
  // Returns the number; nullopt: none of the members is there.
  absl::StatusOr<std::optional<uint64_t>> Number(std::initializer_list<const char*> names) const {
    const Value* const value = Find(names);
    if (value == nullptr) return std::nullopt;
    const double number = value->number_value();
    if (!value->has_number_value() || number < 0 || number != std::floor(number) || number > 1e15) {
      return absl::InvalidArgumentError(
          absl::StrCat(found_, " must be a whole number, not ", value->ShortDebugString()));
    }
    return static_cast<uint64_t>(number);
  }
  absl::StatusOr<uint64_t> RequiredNumber(std::initializer_list<const char*> names) const {
    KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> number, Number(names));
    if (number.has_value()) return *number;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no ", *names.begin(), "; must be given"));
  }
  std::string Text(std::initializer_list<const char*> names) const {
    const Value* const value = Find(names);
    return value == nullptr ? "" : value->string_value();
  }
  bool IsTrue(const char* name) const {
    const Value* const value = Find({name});
    return value != nullptr && value->bool_value();
  }
  bool IsFalse(const char* name) const {
    const Value* const value = Find({name});
    return value != nullptr && value->has_bool_value() && !value->bool_value();
  }

 private:
  const Struct& object_;
  mutable const char* found_ = "";  // The member that Find() returned last.
};

// Counts the layers by what `layer_types` says of each.
absl::Status TakeLayerTypes(const google::protobuf::ListValue& types, ModelFacts* facts) {
  facts->layers = 0;
  for (const Value& type : types.values()) {
    const std::string& name = type.string_value();
    if (name == "linear_attention" || name == "mamba" || name == "conv") continue;
    if (name == "sliding_attention") {
      ++facts->window_layers;
    } else if (name != "full_attention" && name != "attention") {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer_types has ", type.ShortDebugString(),
          ", a kind that is not known; must be full_attention, attention or sliding_attention"));
    }
    ++facts->layers;
  }
  return absl::OkStatus();
}

// Families say in three ways which layers have a window: for each layer, as a pattern (every n-th
// layer has none), or not at all: all layers that may have one do.
absl::Status TakeWindow(const Members& members, ModelFacts* facts) {
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> window,
                       members.Number({"sliding_window", "attention_window_size"}));
  if (const Value* const types = members.Find({"layer_types"})) {
    KVT_RETURN_IF_ERROR(TakeLayerTypes(types->list_value(), facts));
    if (facts->window_layers > 0 && !window.has_value()) {
      return absl::InvalidArgumentError(
          "layer_types has a sliding_attention, and there is no "
          "sliding_window; must be given");
    }
  } else if (window.value_or(0) > 0 && !members.IsFalse("use_sliding_window")) {
    KVT_ASSIGN_OR_RETURN(std::optional<uint64_t> pattern,
                         members.Number({"sliding_window_pattern"}));
    if (!pattern.has_value() && members.Text({"model_type"}) == "gemma2") pattern = 2;
    if (pattern.value_or(0) > 0) {
      facts->window_layers = facts->layers - facts->layers / *pattern;
    } else {
      // In Qwen's models the first layers have no sliding window.
      KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> without,
                           members.Number({"max_window_layers"}));
      const bool some = members.IsTrue("use_sliding_window") && without.has_value();
      facts->window_layers = facts->layers - (some ? std::min(*without, facts->layers) : 0);
    }
  }
  facts->window = facts->window_layers > 0 ? *window : 0;
  return absl::OkStatus();
}

absl::Status TakeHeads(const Members& members, ModelFacts* facts) {
  KVT_ASSIGN_OR_RETURN(facts->heads,
                       members.RequiredNumber({"num_attention_heads", "n_head", "n_heads"}));
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> latent, members.Number({"kv_lora_rank"}));
  if (latent.value_or(0) > 0) {
    KVT_ASSIGN_OR_RETURN(const uint64_t rotated, members.RequiredNumber({"qk_rope_head_dim"}));
    KVT_ASSIGN_OR_RETURN(const uint64_t plain, members.RequiredNumber({"qk_nope_head_dim"}));
    KVT_ASSIGN_OR_RETURN(const uint64_t value, members.RequiredNumber({"v_head_dim"}));
    facts->latent_dim = *latent + rotated;
    facts->attention_width = facts->heads * (plain + rotated + value) / 2;
    return absl::OkStatus();
  }
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> kv_heads,
                       members.Number({"num_key_value_heads", "num_kv_heads", "n_head_kv"}));
  // Falcon's newer decoders keep `multi_query` for what num_kv_heads says.
  const bool is_multi_query =
      members.IsTrue("multi_query") && !members.IsTrue("new_decoder_architecture");
  facts->kv_heads = is_multi_query ? 1 : kv_heads.value_or(facts->heads);
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> head_dim, members.Number({"head_dim"}));
  if (head_dim.has_value()) {
    facts->head_dim = *head_dim;
    return absl::OkStatus();
  }
  KVT_ASSIGN_OR_RETURN(const uint64_t hidden,
                       members.RequiredNumber({"hidden_size", "n_embd", "d_model"}));
  if (facts->heads == 0 || hidden % facts->heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("there is no head_dim, and hidden_size ", hidden,
                                                   " is no multiple of num_attention_heads ",
                                                   facts->heads, "; give head_dim"));
  }
  facts->head_dim = hidden / facts->heads;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFacts> FactsFromConfig(absl::string_view json) {
  Struct config;
  const auto parsed = google::protobuf::util::JsonStringToMessage(std::string(json), &config);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is not a JSON object: ", std::string(parsed.message())));
  }
  const Struct* object = &config;
  const Members outer(object);
  if (const Value* const text = outer.Find({"text_config", "llm_config"})) {
    object = &text->struct_value();
  }
  const Members members(object);
  ModelFacts facts;
  facts.dtype = members.Text({"dtype", "torch_dtype"});
  if (facts.dtype.empty()) facts.dtype = outer.Text({"dtype", "torch_dtype"});
  KVT_ASSIGN_OR_RETURN(facts.layers,
                       members.RequiredNumber({"num_hidden_layers", "n_layer", "n_layers"}));
  KVT_RETURN_IF_ERROR(TakeHeads(members, &facts));
  KVT_RETURN_IF_ERROR(TakeWindow(members, &facts));
  return facts;
}

absl::StatusOr<ModelFacts> FactsFromConfigFile(const std::string& path) {
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
  absl::StatusOr<ModelFacts> facts = FactsFromConfig(text);
  if (!facts.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", facts.status().message()));
  }
  facts->name = path;
  return facts;
}

}  // namespace kvtier::cli
