#include "cli/space_findings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/units.h"
#include "core/space.h"

namespace kvtier::cli {
namespace {

constexpr size_t kShownDigestBytes = 4;

constexpr absl::string_view kCompareHashes =
    "compare what the engines hash, of which kvtier sees nothing: PYTHONHASHSEED (the same text "
    "everywhere), --prefix-caching-hash-algo (sha256_cbor), the engine's block size, EAGLE, and "
    "the salt of requests; kvtier.vllm_token_keys() computes the keys of a prompt";

// A field of a space, how to read it, and how engines come to differ in it.
struct SpaceField {
  absl::string_view name;
  std::string (*text)(const v1::SpaceSpec&);
  absl::string_view remedy;
};

std::string Shown(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text), "\"");
}

template <auto kGetter>
std::string TextField(const v1::SpaceSpec& space) {
  return Shown((space.*kGetter)());
}

template <auto kGetter>
std::string NumberField(const v1::SpaceSpec& space) {
  return absl::StrCat((space.*kGetter)());
}

// Returns the codec's name. Older programs mean "raw" by not sending it.
std::string CodecField(const v1::SpaceSpec& space) {
  return Shown(space.codec().empty() ? absl::string_view(kRawCodec) : space.codec());
}

std::string AnyLengthField(const v1::SpaceSpec& space) {
  return space.any_length() ? "true" : "false";
}

constexpr std::array<SpaceField, 14> kFields = {{
    {"model", &TextField<&v1::SpaceSpec::model>, "give both engines the same name of the model"},
    {"weights_digest", &TextField<&v1::SpaceSpec::weights_digest>,
     "load the same revision of the weights, and digest them the same way"},
    {"lora", &TextField<&v1::SpaceSpec::lora>,
     "adapters never share; name the same one the same way"},
    {"dtype", &TextField<&v1::SpaceSpec::dtype>, "the same --dtype and --kv-cache-dtype"},
    {"layout", &TextField<&v1::SpaceSpec::layout>,
     "the same order of axes (VLLM_KV_CACHE_LAYOUT, attention backend)"},
    {"layers", &NumberField<&v1::SpaceSpec::layers>,
     "the same layers in a block (pipeline stages, draft model)"},
    {"kv_heads", &NumberField<&v1::SpaceSpec::kv_heads>, "the same --tensor-parallel-size"},
    {"head_dim", &NumberField<&v1::SpaceSpec::head_dim>, "the same model and attention backend"},
    {"tokens_per_block", &NumberField<&v1::SpaceSpec::tokens_per_block>,
     "the same --block-size (page size, chunk size)"},
    {"tensor_size", &NumberField<&v1::SpaceSpec::tensor_size>, "the same --tensor-parallel-size"},
    {"pipeline_size", &NumberField<&v1::SpaceSpec::pipeline_size>,
     "the same --pipeline-parallel-size"},
    {"block_bytes", &NumberField<&v1::SpaceSpec::block_bytes>,
     "follows from the other fields and from what the connector puts into a block"},
    {"codec", &CodecField, "the same codec in both connectors' configuration"},
    {"any_length", &AnyLengthField, "the same in both connectors: blocks of one length, or of any"},
}};

// Spaces that differ in their ranks only: the shards of one engine.
struct Family {
  std::vector<const v1::RegisteredSpace*> shards;  // Shards of the space, at least one.
  uint32_t sessions = 0;                           // Sessions of all shards.
  // Largest number of sessions of one shard, which is the number of engines.
  uint32_t most_sessions = 0;

  const v1::RegisteredSpace& first() const { return *shards.front(); }
};

std::string DigestText(const v1::RegisteredSpace& space) {
  return absl::BytesToHexString(space.space_digest().substr(0, kShownDigestBytes));
}

std::string Counted(uint32_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

bool IsOneFamily(const v1::RegisteredSpace& a, const v1::RegisteredSpace& b) {
  return a.tenant() == b.tenant() && DifferingFields(a.space(), b.space()).empty();
}

std::vector<Family> FamiliesOf(const v1::DescribeSharingResponse& sharing) {
  std::vector<Family> families;
  for (const v1::RegisteredSpace& space : sharing.spaces()) {
    auto found = std::find_if(families.begin(), families.end(), [&](const Family& family) {
      return IsOneFamily(family.first(), space);
    });
    if (found == families.end()) found = families.insert(families.end(), Family{});
    found->shards.push_back(&space);
    found->sessions += space.sessions();
    found->most_sessions = std::max(found->most_sessions, space.sessions());
  }
  // The space that most workers use comes first: others are compared with it.
  std::stable_sort(families.begin(), families.end(), [](const Family& a, const Family& b) {
    return a.most_sessions > b.most_sessions;
  });
  return families;
}

// Returns "space 1a2b3c4d of tenant t (2 sessions)".
std::string NameOf(const Family& family) {
  return absl::StrCat("space ", DigestText(family.first()), " of tenant ", family.first().tenant(),
                      " (", Counted(family.sessions, "session"), ")");
}

bool MightShare(const Family& a, const Family& b) {
  const v1::SpaceSpec& one = a.first().space();
  const v1::SpaceSpec& other = b.first().space();
  return one.model() == other.model() || one.weights_digest() == other.weights_digest();
}

// Returns in how many fields two families differ.
size_t Distance(const Family& a, const Family& b) {
  return DifferingFields(a.first().space(), b.first().space()).size() +
         (a.first().tenant() != b.first().tenant() ? 1 : 0);
}

Finding DifferenceFinding(const Family& one, const Family& other) {
  Finding finding{.check = absl::StrCat("spaces of ", Shown(one.first().space().model())),
                  .health = Health::kWarn};
  std::vector<std::string> differences;
  std::vector<std::string> remedies;
  if (one.first().tenant() != other.first().tenant()) {
    differences.push_back(
        absl::StrCat("tenant is ", one.first().tenant(), " and ", other.first().tenant()));
    remedies.emplace_back("tenants never share; connect both engines as one");
  }
  const std::vector<std::string> fields =
      DifferingFields(one.first().space(), other.first().space());
  for (const SpaceField& field : kFields) {
    if (std::find(fields.begin(), fields.end(), field.name) == fields.end()) continue;
    differences.push_back(absl::StrCat(field.name, " is ", field.text(one.first().space()), " and ",
                                       field.text(other.first().space())));
    remedies.push_back(absl::StrCat(field.name, ": ", field.remedy));
  }
  finding.detail = absl::StrCat(NameOf(one), " and ", NameOf(other),
                                " do not share: ", absl::StrJoin(differences, "; "));
  finding.remedy = absl::StrJoin(remedies, "; ");
  // Spaces that differ in the LoRA adapter only differ on purpose, as a rule.
  if (fields == std::vector<std::string>{"lora"} && remedies.size() == 1) {
    finding.health = Health::kOk;
    finding.remedy.clear();
  }
  return finding;
}

Finding SharedFinding(const Family& family) {
  Finding finding{.check = absl::StrCat("spaces of ", Shown(family.first().space().model())),
                  .detail = NameOf(family)};
  const size_t shards = family.shards.size();
  if (shards > 1) absl::StrAppend(&finding.detail, ", ", shards, " shards");
  for (const v1::RegisteredSpace* const shard : family.shards) {
    finding.spaces.push_back({.digest = absl::BytesToHexString(shard->space_digest()),
                              .tensor_rank = shard->space().tensor_rank(),
                              .pipeline_rank = shard->space().pipeline_rank()});
  }
  if (family.most_sessions > 1) {
    absl::StrAppend(&finding.detail, ": these share");
  } else if (family.most_sessions == 1) {
    absl::StrAppend(&finding.detail, ": nobody else to share with now");
  } else {
    absl::StrAppend(&finding.detail, ": of workers that are gone");
  }
  return finding;
}

// Returns a warning if workers share a space, but no key was found in any tier since the agent's
// start.
Finding KeysFinding(const std::vector<Family>& families, const v1::AgentStatusResponse& status) {
  Finding finding{.check = "keys"};
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t inserts = 0;
  for (const v1::TierReport& tier : status.tiers()) {
    hits += tier.hits();
    misses = std::max(misses, tier.misses());
    inserts += tier.inserts();
  }
  finding.detail = absl::StrCat(CountText(hits), " hits, ", CountText(inserts),
                                " blocks put, since "
                                "the agent's start");
  const bool shared = std::any_of(families.begin(), families.end(),
                                  [](const Family& family) { return family.most_sessions > 1; });
  if (hits > 0 || misses == 0 || inserts == 0 || !shared) return finding;
  finding.health = Health::kWarn;
  finding.detail = absl::StrCat(
      "workers share a space, and no key that they asked for was found so far: ", finding.detail);
  finding.remedy = std::string(kCompareHashes);
  return finding;
}

}  // namespace

std::vector<std::string> DifferingFields(const v1::SpaceSpec& a, const v1::SpaceSpec& b) {
  std::vector<std::string> names;
  for (const SpaceField& field : kFields) {
    if (field.text(a) != field.text(b)) names.emplace_back(field.name);
  }
  return names;
}

Findings SpaceFindings(const v1::DescribeSharingResponse& sharing,
                       const v1::AgentStatusResponse& status) {
  Findings findings;
  if (sharing.spaces().empty()) {
    findings.push_back({.check = "spaces",
                        .health = Health::kWarn,
                        .detail = absl::StrCat("no worker has registered one; ",
                                               Counted(status.sessions(), "session")),
                        .remedy = "start the engine with its connector, and look into the engine's "
                                  "log for kvtier"});
    return findings;
  }
  const std::vector<Family> families = FamiliesOf(sharing);
  for (size_t i = 0; i < families.size(); ++i) {
    findings.push_back(SharedFinding(families[i]));
    std::optional<size_t> nearest;
    for (size_t j = 0; j < i; ++j) {
      if (!MightShare(families[i], families[j])) continue;
      if (!nearest ||
          Distance(families[i], families[j]) < Distance(families[i], families[*nearest])) {
        nearest = j;
      }
    }
    if (nearest) findings.push_back(DifferenceFinding(families[*nearest], families[i]));
  }
  if (sharing.forgotten_spaces() > 0) {
    findings.push_back({.check = "spaces",
                        .health = Health::kWarn,
                        .detail = absl::StrCat(sharing.forgotten_spaces(),
                                               " registrations are not shown: the agent describes "
                                               "256 spaces"),
                        .remedy = "end workers that are not needed, and ask again"});
  }
  findings.push_back(KeysFinding(families, status));
  return findings;
}

}  // namespace kvtier::cli
