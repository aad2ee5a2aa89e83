#include "cli/size_question.h"

#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/model_config.h"
#include "cli/model_presets.h"
#include "core/byte_size.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

// Reads options one by one and keeps the first error.
class Reader {
 public:
  explicit Reader(const std::map<std::string, std::vector<std::string>>* options)
      : options_(*options) {}

  void Text(const char* name, std::string* value) {
    if (const std::string* const text = Find(name)) *value = *text;
  }
  void Count(const char* name, uint64_t most, uint64_t* value) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    uint64_t count = 0;
    if (!absl::SimpleAtoi(*text, &count) || count == 0 || count > most) {
      Fail(absl::StrCat(name, " must be a whole number from 1 to ", most, ", not '", *text, "'"));
    }
    *value = count;
  }
  void Bytes(const char* name, uint64_t* value) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    const absl::StatusOr<uint64_t> bytes = ParseBytes(*text);
    if (!bytes.ok() || *bytes == 0) {
      Fail(absl::StrCat(name, " must be a size of memory, for example 64GiB, not '", *text, "'"));
    }
    *value = bytes.value_or(0);
  }
  struct Bounds {
    double least;
    double most;
    const char* example;
  };
  void Rate(const char* name, const Bounds& bounds, double* value) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    if (!absl::SimpleAtod(*text, value) || !(*value >= bounds.least && *value <= bounds.most)) {
      Fail(absl::StrCat(name, " must be a number from ", bounds.least, " to ", bounds.most,
                        ", for example ", bounds.example, ", not '", *text, "'"));
    }
  }
  const absl::Status& status() const { return status_; }

 private:
  const std::string* Find(const char* name) const {
    const auto found = options_.find(name);
    return found == options_.end() ? nullptr : &found->second.front();
  }
  void Fail(const std::string& why) { status_.Update(absl::InvalidArgumentError(why)); }

  const std::map<std::string, std::vector<std::string>>& options_;
  absl::Status status_;
};

std::string PresetNames() {
  return absl::StrJoin(ModelPresets(), ", ", [](std::string* out, const ModelFacts& facts) {
    absl::StrAppend(out, facts.name);
  });
}

// Returns the facts of the preset or the config.json; empty: neither was named.
absl::StatusOr<ModelFacts> NamedFacts(const SizeQuestion& question) {
  if (!question.config.empty()) return FactsFromConfigFile(question.config, question.given);
  if (question.preset.empty()) return ModelFacts{.name = "a model of these facts"};
  const ModelFacts* const preset = FindPreset(question.preset);
  if (preset != nullptr) return *preset;
  return absl::InvalidArgumentError(
      absl::StrCat("--model '", question.preset, "' is not one of: ", PresetNames()));
}

// Refuses options that would change all layers of a model whose layers differ, or which have an
// index.
absl::Status CheckReplaced(const ModelFacts& given, const ModelFacts& named) {
  const bool replaces_shape = given.kv_heads != 0 || given.head_dim != 0 || given.latent_dim != 0;
  const bool replaces_layers = given.layers != 0 || given.window_layers != 0;
  if (!named.has_several_shapes() && named.index_bytes == 0) return absl::OkStatus();
  if (!replaces_layers && (!replaces_shape || !named.has_several_shapes())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(named.has_several_shapes() ? "its layers differ in their heads"
                                              : "its layers keep the keys of an index",
                   ", so no option can stand for --layers, --kv-heads, --head-dim, --latent or "
                   "--window-layers of all of them; leave these options out, or --config"));
}

// Gives the model either heads or a latent vector. Without a number of KV heads, each head has its
// own.
absl::Status SettleHeads(const SizeQuestion& question, ModelFacts* facts) {
  if (facts->latent_dim == 0) {
    if (facts->kv_heads == 0 && !facts->has_several_shapes()) facts->kv_heads = facts->heads;
    return absl::OkStatus();
  }
  const ModelFacts& given = question.given;
  // Beside a latent, --head-dim says only how much work attention is.
  if (given.kv_heads != 0 || (given.head_dim != 0 && question.flops == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a latent (--latent ", facts->latent_dim,
                     ") stands instead of heads; give --latent, or --kv-heads and --head-dim"));
  }
  facts->kv_heads = 0;
  return absl::OkStatus();
}

// Says how many layers have the window where no option does: all of them, if the named model has no
// window or has it in all of its layers.
absl::Status SettleWindow(const ModelFacts& given, const ModelFacts& named, ModelFacts* facts) {
  if (facts->window == 0 || given.window_layers != 0) return absl::OkStatus();
  if (named.window_layers == 0 || named.window_layers == named.layers) {
    facts->window_layers = facts->layers;
    return absl::OkStatus();
  }
  if (facts->layers == named.layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(named.window_layers, " of ", named.layers, " layers have a window, and of ",
                   facts->layers, " (--layers) it cannot be told; give --window-layers"));
}

}  // namespace

absl::StatusOr<SizeQuestion> SizeQuestionFrom(
    const std::map<std::string, std::vector<std::string>>& options) {
  SizeQuestion question;
  ModelFacts& given = question.given;
  Reader reader(&options);
  reader.Text("--model", &question.preset);
  reader.Text("--config", &question.config);
  reader.Text("--dtype", &given.dtype);
  reader.Count("--layers", kMaxLayers, &given.layers);
  reader.Count("--heads", kMaxHeads, &given.heads);
  reader.Count("--kv-heads", kMaxHeads, &given.kv_heads);
  reader.Count("--head-dim", kMaxHeadDim, &given.head_dim);
  reader.Count("--latent", kMaxHeadDim, &given.latent_dim);
  reader.Count("--window", kMaxContextTokens, &given.window);
  reader.Count("--window-layers", kMaxLayers, &given.window_layers);
  reader.Count("--tokens", kMaxContextTokens, &question.tokens);
  reader.Count("--requests", kMaxSizeRequests, &question.requests);
  reader.Bytes("--gpu", &question.gpu_bytes);
  reader.Bytes("--host", &question.host_bytes);
  reader.Bytes("--disk", &question.disk_bytes);
  reader.Rate("--prefill-rate", {kMinPrefillRate, kMaxPrefillRate, "12000"},
              &question.prefill_rate);
  reader.Rate("--flops", {kMinFlops, kMaxFlops, "4e14"}, &question.flops);
  double parameters = 0;
  reader.Rate("--parameters", {kMinParameters, kMaxParameters, "8e9"}, &parameters);
  KVT_RETURN_IF_ERROR(reader.status());
  given.parameters = static_cast<uint64_t>(parameters);
  if (!question.preset.empty() && !question.config.empty()) {
    return absl::InvalidArgumentError("size takes --model or --config, not both");
  }
  if (question.prefill_rate > 0 && question.flops > 0) {
    return absl::InvalidArgumentError("size takes --prefill-rate or --flops, not both");
  }
  return question;
}

absl::StatusOr<ModelFacts> FactsOf(const SizeQuestion& question) {
  KVT_ASSIGN_OR_RETURN(const ModelFacts named, NamedFacts(question));
  ModelFacts facts = named;
  const ModelFacts& given = question.given;
  const auto take = [](const auto& value, auto* fact) {
    if (value != std::remove_cvref_t<decltype(value)>()) *fact = value;
  };
  // The attention width of the named model is computed from that model's heads.
  if (given.heads != 0 || given.head_dim != 0) facts.attention_width = 0;
  if (given.kv_heads != 0 && given.latent_dim == 0) facts.latent_dim = 0;
  take(given.layers, &facts.layers);
  take(given.heads, &facts.heads);
  take(given.kv_heads, &facts.kv_heads);
  take(given.head_dim, &facts.head_dim);
  take(given.latent_dim, &facts.latent_dim);
  take(given.window, &facts.window);
  take(given.window_layers, &facts.window_layers);
  take(given.dtype, &facts.dtype);
  take(given.parameters, &facts.parameters);
  absl::Status checked = CheckReplaced(given, named);
  if (checked.ok()) checked = SettleHeads(question, &facts);
  checked.Update(SettleWindow(given, named, &facts));
  if (checked.ok()) checked = facts.Check();
  if (!checked.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(facts.name, ": ", checked.message()));
  }
  return facts;
}

}  // namespace kvtier::cli
