#include "cli/size.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/status_macros.h"

namespace kvtier::cli {
namespace {

absl::StatusOr<std::optional<ModelSize::Recompute>> RecomputeOf(const SizeQuestion& question,
                                                                const ModelSize& size) {
  ModelSize::Recompute recompute;
  if (question.prefill_rate > 0) {
    recompute.seconds = static_cast<double>(size.tokens) / question.prefill_rate;
  } else if (question.flops > 0) {
    const std::optional<double> operations = size.facts.PrefillOperations(size.tokens);
    if (!operations.has_value()) {
      return absl::InvalidArgumentError(
          size.facts.parameters == 0
              ? "--flops needs --parameters, the number of the model's parameters"
          : size.facts.has_several_shapes()
              ? "the heads of the layers differ, so --flops cannot say how much work attention is; "
                "give --prefill-rate"
              : "--flops needs --heads and --head-dim, which say how much work attention is");
    }
    recompute.seconds = *operations / question.flops;
  } else {
    return std::nullopt;
  }
  recompute.bytes_per_second = static_cast<double>(size.request_bytes) / recompute.seconds;
  return recompute;
}

// Returns `text` with each byte that is no printable ASCII as "\xHH": errors quote a file that
// anybody may have written.
std::string Escaped(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isprint(byte)) {
      escaped.push_back(c);
    } else {
      absl::StrAppend(&escaped, "\\x", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  return escaped;
}

std::string FactsText(const ModelFacts& facts) {
  std::string text = absl::StrCat(facts.layers, " layers, ");
  if (facts.latent_dim != 0) {
    absl::StrAppend(&text, "a latent vector of ", facts.latent_dim);
    if (facts.index_bytes != 0) absl::StrAppend(&text, " and the key of an index");
  } else if (facts.has_several_shapes()) {
    absl::StrAppend(&text, "KV heads that differ between layers");
  } else {
    absl::StrAppend(&text, facts.kv_heads, facts.kv_heads == 1 ? " KV head of " : " KV heads of ",
                    facts.head_dim);
  }
  absl::StrAppend(&text, ", ", facts.dtype);
  if (facts.window_layers != 0) {
    absl::StrAppend(&text, ", a window of ", CountText(facts.window), " tokens in ",
                    facts.window_layers, " of the layers");
  }
  const std::string attention = facts.AttentionName();
  return attention.empty() ? text : absl::StrCat(text, "; ", attention, " attention");
}

// Returns a rate as people read it, 1 B/s at least and kMostShownRate at most.
std::string RateText(double bytes_per_second) {
  constexpr double kMostShownRate = 1e19;
  const double shown = std::clamp(bytes_per_second, 1.0, kMostShownRate);
  return absl::StrCat(BytesText(static_cast<uint64_t>(shown)), "/s");
}

// Returns a count of tokens, with ">= " before kMaxContextTokens, where the search for it ends.
std::string TokensText(uint64_t tokens) {
  return absl::StrCat(tokens == kMaxContextTokens ? ">= " : "", CountText(tokens));
}

}  // namespace

absl::StatusOr<ModelSize> SizeOf(const SizeQuestion& question) {
  ModelSize size{.tokens = question.tokens, .requests = question.requests};
  KVT_ASSIGN_OR_RETURN(size.facts, FactsOf(question));
  size.token_bytes = size.facts.TokenBytes();
  size.request_bytes = size.facts.ContextBytes(size.tokens);
  if (__builtin_mul_overflow(size.request_bytes, size.requests, &size.total_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("--requests ", size.requests, " of ",
                                                   size.request_bytes,
                                                   " bytes are more than 2^64 bytes; name fewer"));
  }
  for (const auto& [name, bytes] : {std::pair<const char*, uint64_t>{"gpu", question.gpu_bytes},
                                    {"host", question.host_bytes},
                                    {"disk", question.disk_bytes}}) {
    if (bytes == 0) continue;
    size.tiers.push_back({.name = name,
                          .bytes = bytes,
                          .tokens = size.facts.TokensIn(bytes),
                          .requests = bytes / size.request_bytes});
  }
  KVT_ASSIGN_OR_RETURN(size.recompute, RecomputeOf(question, size));
  return size;
}

std::string SizeTable(const ModelSize& size) {
  std::string text =
      absl::StrCat("MODEL  ", Printable(size.facts.name), ": ", FactsText(size.facts), "\n\n");
  Table bytes({{"KEYS AND VALUES OF"}, {"BYTES", Align::kRight}, {"ROUNDED", Align::kRight}});
  const auto add = [&bytes](std::string what, uint64_t count) {
    bytes.AddRow({std::move(what), CountText(count), BytesText(count)});
  };
  add("a token", size.token_bytes);
  add(absl::StrCat("a request of ", CountText(size.tokens), " tokens"), size.request_bytes);
  if (size.requests > 1) add(absl::StrCat(CountText(size.requests), " requests"), size.total_bytes);
  absl::StrAppend(&text, bytes.ToString());
  if (!size.tiers.empty()) {
    Table tiers({{"TIER"},
                 {"BYTES", Align::kRight},
                 {"TOKENS OF ONE CONTEXT", Align::kRight},
                 {"REQUESTS", Align::kRight}});
    for (const ModelSize::Tier& tier : size.tiers) {
      tiers.AddRow(
          {tier.name, BytesText(tier.bytes), TokensText(tier.tokens), CountText(tier.requests)});
    }
    absl::StrAppend(&text, "\n", tiers.ToString());
  }
  if (!size.recompute.has_value()) {
    return absl::StrCat(text,
                        "\n--prefill-rate or --flops tells when fetching beats recomputing.\n");
  }
  return absl::StrCat(text, "\nFetching a request beats recomputing it, which takes ",
                      SecondsText(size.recompute->seconds), ", above ",
                      RateText(size.recompute->bytes_per_second), ".\n");
}

std::string SizeJson(const ModelSize& size) {
  const ModelFacts& facts = size.facts;
  JsonWriter json;
  json.OpenObject("model");
  json.Text("name", facts.name);
  json.Text("attention", facts.AttentionName());
  json.Count("layers", facts.layers);
  json.Count("heads", facts.heads);
  json.Count("kv_heads", facts.kv_heads);
  json.Count("head_dim", facts.head_dim);
  json.Count("latent_dim", facts.latent_dim);
  json.Count("index_bytes", facts.index_bytes);
  json.Count("window_tokens", facts.window);
  json.Count("window_layers", facts.window_layers);
  json.Text("dtype", facts.dtype);
  json.Count("parameters", facts.parameters);
  json.Close();
  json.Count("token_bytes", size.token_bytes);
  json.Count("request_tokens", size.tokens);
  json.Count("request_bytes", size.request_bytes);
  json.Count("requests", size.requests);
  json.Count("total_bytes", size.total_bytes);
  json.OpenArray("tiers");
  for (const ModelSize::Tier& tier : size.tiers) {
    json.OpenElement();
    json.Text("tier", tier.name);
    json.Count("bytes", tier.bytes);
    json.Count("context_tokens", tier.tokens);
    json.Count("requests", tier.requests);
    json.Close();
  }
  json.Close();
  if (size.recompute.has_value()) {
    json.OpenObject("recompute");
    json.Seconds("seconds", size.recompute->seconds);
    json.Ratio("break_even_bytes_per_second", size.recompute->bytes_per_second);
    json.Close();
  } else {
    json.Null("recompute");
  }
  return json.Finish();
}

Outcome RunSize(const Arguments& arguments) {
  const absl::StatusOr<ModelSize> size = SizeOf(arguments.size);
  if (!size.ok()) {
    return {.code = ExitCode::kUsage,
            .err = absl::StrCat("kvtier: ", Escaped(size.status().message()), "\n")};
  }
  return {.out = arguments.format == Format::kJson ? SizeJson(*size) : SizeTable(*size)};
}

}  // namespace kvtier::cli
