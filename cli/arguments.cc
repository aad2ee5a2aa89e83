#include "cli/arguments.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cli/options.h"
#include "core/byte_size.h"
#include "core/cluster_tenants.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

absl::Status Wrong(const std::string& text) { return absl::InvalidArgumentError(text); }

// A command line taken apart, before anything is read into it.
struct Pieces {
  std::vector<std::string> words;
  std::map<std::string, std::vector<std::string>> options;  // Options by long name.
  bool help = false;                                        // --help is among the words.
};

absl::Status AddOption(const Option& option, std::optional<std::string> value, Pieces* pieces) {
  std::vector<std::string>& values = pieces->options[std::string(option.name)];
  if (!values.empty() && !option.repeatable) {
    return Wrong(absl::StrCat(option.name, " is given twice; give it once"));
  }
  if (value && value->empty()) return Wrong(absl::StrCat(option.name, " is empty; give a value"));
  values.push_back(value.value_or(""));
  return absl::OkStatus();
}

absl::StatusOr<Pieces> TakeApart(std::span<const std::string> words) {
  Pieces pieces;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    if (name == "--help" || name == "-h") {
      pieces.help = true;
      continue;
    }
    if (!absl::StartsWith(name, "-")) {
      pieces.words.push_back(name);
      continue;
    }
    std::optional<std::string> value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "-o") name = "--output";
    const Option* const option = FindOption(name);
    if (option == nullptr) return Wrong(absl::StrCat("unknown option ", name, "; see kvtier help"));
    if (option->value.empty()) {
      if (value) return Wrong(absl::StrCat(name, " takes no value; leave out =VALUE"));
    } else if (!value) {
      if (i + 1 == words.size()) return Wrong(absl::StrCat(name, " needs a value"));
      value = words[++i];
    }
    KVT_RETURN_IF_ERROR(AddOption(*option, std::move(value), &pieces));
  }
  return pieces;
}

bool IsAboutATenant(Verb verb) {
  return verb == Verb::kTenantDescribe || verb == Verb::kTenantSet || verb == Verb::kTenantDrop;
}

// Returns how many of the words name the verb: two for "tenants set acme".
absl::StatusOr<size_t> VerbWordsOf(const std::vector<std::string>& words) {
  if (words.empty()) return Wrong("a verb is missing; see kvtier help");
  const std::vector<absl::string_view> second = SecondWordsOf(words[0]);
  if (second.empty()) return 1;
  if (words.size() > 1) return 2;
  if (FindVerbEntry(words[0]) != nullptr) return 1;
  return Wrong(absl::StrCat(words[0], " needs a second word: ", absl::StrJoin(second, " or ")));
}

absl::StatusOr<const VerbEntry*> FindVerb(const std::vector<std::string>& words) {
  KVT_ASSIGN_OR_RETURN(const size_t count, VerbWordsOf(words));
  const std::string spoken = count == 2 ? absl::StrCat(words[0], " ", words[1]) : words[0];
  if (const VerbEntry* const verb = FindVerbEntry(spoken); verb != nullptr) return verb;
  return Wrong(absl::StrCat("unknown verb '", spoken, "'; see kvtier help"));
}

// Returns OK when the verb takes these words and options.
absl::Status CheckTaken(const VerbEntry& verb, const Pieces& pieces) {
  const std::vector<const Option*> options = OptionsOf(verb);
  for (const auto& [name, values] : pieces.options) {
    const bool taken = std::any_of(options.begin(), options.end(),
                                   [&](const Option* option) { return option->name == name; });
    if (!taken) return Wrong(absl::StrCat(verb.words, " does not take ", name));
  }
  const size_t words = absl::StrContains(verb.words, ' ') ? 2 : 1;
  if (verb.arguments.empty() && pieces.words.size() > words) {
    return Wrong(absl::StrCat(verb.words, " does not take '", pieces.words[words], "'"));
  }
  return absl::OkStatus();
}

std::optional<std::string> ValueOf(const Pieces& pieces, const char* name) {
  const auto found = pieces.options.find(name);
  if (found == pieces.options.end()) return std::nullopt;
  return found->second.front();
}

// Returns the gRPC address: a path means its Unix socket; gRPC interprets everything else. A path
// is what has a '/' and no scheme, such as "dns:", before it.
std::string Address(const std::string& text) {
  const size_t slash = text.find('/');
  const bool is_path = slash != std::string::npos && slash < text.find(':');
  return is_path ? absl::StrCat("unix:", text) : text;
}

absl::Status ReadCommon(const Pieces& pieces, Arguments* arguments) {
  if (const auto found = pieces.options.find("--agent"); found != pieces.options.end()) {
    for (const std::string& agent : found->second) arguments->agents.push_back(Address(agent));
  }
  if (const auto value = ValueOf(pieces, "--coordinator")) arguments->coordinator = Address(*value);
  if (arguments->agents.empty() && !arguments->coordinator) {
    arguments->agents.emplace_back(kDefaultAgent);
  }
  if (const auto value = ValueOf(pieces, "--output")) {
    if (*value != "table" && *value != "json") {
      return Wrong(absl::StrCat("--output must be table or json, not '", *value, "'"));
    }
    arguments->format = *value == "json" ? Format::kJson : Format::kTable;
  }
  if (const auto value = ValueOf(pieces, "--timeout")) {
    if (!absl::ParseDuration(*value, &arguments->timeout) ||
        arguments->timeout < absl::Milliseconds(1) || arguments->timeout > convert::kMaxTimeout) {
      return Wrong(
          absl::StrCat("--timeout must be 1ms to 60s, for example 500ms, not '", *value, "'"));
    }
  }
  return absl::OkStatus();
}

// Returns the bytes of hexadecimal text. Checks it, since absl::HexStringToBytes() takes anything.
absl::StatusOr<std::string> BytesFromHex(const char* option, const std::string& hex) {
  if (hex.size() % 2 != 0 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    return Wrong(absl::StrCat(option, " must be pairs of hexadecimal digits, not '", hex, "'"));
  }
  return absl::HexStringToBytes(hex);
}

// Returns the block name that a command needs; `needs` begins the error: "lookup needs ".
absl::StatusOr<EngineName> ReadEngineName(const Pieces& pieces, absl::string_view needs) {
  const auto tenant = ValueOf(pieces, "--tenant");
  const auto space = ValueOf(pieces, "--space-digest");
  const auto key = ValueOf(pieces, "--engine-key");
  if (!tenant || !space || !key) {
    return Wrong(absl::StrCat(needs, "all of --tenant, --space-digest and --engine-key"));
  }
  KVT_ASSIGN_OR_RETURN(const std::string space_bytes, BytesFromHex("--space-digest", *space));
  KVT_ASSIGN_OR_RETURN(const SpaceDigest digest,
                       convert::SpaceDigestFrom(space_bytes, "--space-digest"));
  KVT_ASSIGN_OR_RETURN(const std::string key_bytes, BytesFromHex("--engine-key", *key));
  absl::StatusOr<EngineKey> engine_key = EngineKey::FromBytes(key_bytes);
  if (!engine_key.ok()) {
    return Wrong(absl::StrCat("--engine-key: ", engine_key.status().message()));
  }
  return EngineName{*tenant, digest, *std::move(engine_key)};
}

absl::Status ReadLookup(const Pieces& pieces, Arguments* arguments) {
  const auto hex = ValueOf(pieces, "--block-key");
  if (!hex) {
    KVT_ASSIGN_OR_RETURN(arguments->engine_name,
                         ReadEngineName(pieces, "lookup needs --block-key, or "));
    // Only an agent knows the tenants' keys.
    if (arguments->agents.empty()) return Wrong("lookup by --engine-key needs an --agent, too");
    return absl::OkStatus();
  }
  for (const char* other : {"--tenant", "--space-digest", "--engine-key"}) {
    if (ValueOf(pieces, other))
      return Wrong(absl::StrCat("lookup takes --block-key or ", other, ", not both"));
  }
  const absl::StatusOr<BlockKey> key = BlockKey::FromHex(*hex);
  if (!key.ok()) return Wrong(absl::StrCat("--block-key: ", key.status().message()));
  arguments->block_key = *key;
  return absl::OkStatus();
}

absl::Status ReadEvict(const Pieces& pieces, Arguments* arguments) {
  const auto name = ValueOf(pieces, "--tier");
  for (const Tier tier : kAllTiers) {
    if (name && *name == TierName(tier)) arguments->tier = tier;
  }
  if (!arguments->tier) return Wrong("evict needs --tier gpu, host or disk");
  arguments->yes = ValueOf(pieces, "--yes").has_value();
  if (!arguments->yes) {
    return Wrong(absl::StrCat("evict drops every block of the ", *name,
                              " tier that nobody holds; add --yes to confirm"));
  }
  return absl::OkStatus();
}

absl::Status ReadTenantErase(const Pieces& pieces, Arguments* arguments) {
  if (pieces.words.size() != 3) return Wrong("tenant erase needs the name of one tenant");
  arguments->erased_tenant = pieces.words[2];
  arguments->yes = ValueOf(pieces, "--yes").has_value();
  if (!arguments->yes) {
    return Wrong(absl::StrCat("tenant erase destroys the key of ", arguments->erased_tenant,
                              ", and with it all its blocks on disk; add --yes to confirm"));
  }
  // The verb rewrites a part of each disk's manifest.
  if (!ValueOf(pieces, "--timeout")) arguments->timeout = convert::kMaxTimeout;
  return absl::OkStatus();
}

absl::Status ReadPins(const Pieces& pieces, Arguments* arguments) {
  arguments->pins_tenant = ValueOf(pieces, "--tenant").value_or("");
  if (arguments->verb == Verb::kPinsDrop && arguments->pins_tenant.empty()) {
    return Wrong("pins drop needs --tenant");
  }
  const auto pin = ValueOf(pieces, "--pin");
  if (pin && (!absl::SimpleAtoi(*pin, &arguments->pin) || arguments->pin == 0)) {
    return Wrong(
        absl::StrCat("--pin must be a number that kvtier pins list shows, not '", *pin, "'"));
  }
  return absl::OkStatus();
}

absl::Status ReadPrefixDrop(const Pieces& pieces, Arguments* arguments) {
  KVT_ASSIGN_OR_RETURN(arguments->engine_name, ReadEngineName(pieces, "prefix drop needs "));
  arguments->yes = ValueOf(pieces, "--yes").has_value();
  if (!arguments->yes) {
    return Wrong("prefix drop drops the block and all that descends from it; add --yes to confirm");
  }
  if (!ValueOf(pieces, "--timeout")) arguments->timeout = convert::kMaxTimeout;
  return absl::OkStatus();
}

// Reads `tenants export`, `tenants import` and `tenants init`.
absl::Status ReadTenantsStore(const Pieces& pieces, Arguments* arguments) {
  if (arguments->verb == Verb::kTenantsExport) {
    if (arguments->agents.size() > 1) {
      return Wrong("tenants export prints the settings of one program; name one --agent");
    }
    return absl::OkStatus();
  }
  if (!arguments->coordinator) {
    return Wrong(absl::StrCat("tenants ", pieces.words[1],
                              " needs --coordinator, the path of the coordinator's socket"));
  }
  if (arguments->verb == Verb::kTenantsImport) {
    if (pieces.words.size() != 3) return Wrong("tenants import needs one file");
    arguments->import_file = pieces.words[2];
    arguments->yes = ValueOf(pieces, "--yes").has_value();
    return absl::OkStatus();
  }
  const auto replaced = ValueOf(pieces, "--replace");
  if (!replaced) return absl::OkStatus();
  const absl::StatusOr<uint64_t> store = ParseStoreId(*replaced);
  if (!store.ok()) return Wrong(absl::StrCat("--replace: ", store.status().message()));
  arguments->replaced_store = *store;
  return absl::OkStatus();
}

absl::Status ReadTenants(const Pieces& pieces, Arguments* arguments) {
  if (arguments->coordinator && !arguments->agents.empty()) {
    return Wrong("tenants asks agents or, for all nodes, a coordinator; name one of the two");
  }
  if (arguments->verb == Verb::kTenants) return absl::OkStatus();
  if (!IsAboutATenant(arguments->verb)) return ReadTenantsStore(pieces, arguments);
  if (pieces.words.size() != 3) {
    return Wrong(absl::StrCat("tenants ", pieces.words[1], " needs the name of one tenant"));
  }
  KVT_ASSIGN_OR_RETURN(arguments->tenant, TenantQuestionFrom(pieces.words[2], pieces.options));
  const bool names_none =
      arguments->tenant.change.IsEmpty() && arguments->tenant.secret_file.empty();
  if (arguments->verb == Verb::kTenantSet && names_none) {
    return Wrong("tenants set needs a setting, for example --host_guaranteed 10GiB");
  }
  if (arguments->coordinator && !arguments->tenant.secret_file.empty()) {
    return Wrong("--secret_file: a coordinator takes no secret; set it on each --agent");
  }
  arguments->yes = ValueOf(pieces, "--yes").has_value();
  if (arguments->verb != Verb::kTenantDrop) return absl::OkStatus();
  if (!arguments->yes) {
    const std::string& name = pieces.words[2];
    const std::string what =
        arguments->coordinator ? absl::StrCat("tenants drop --coordinator removes the settings of ",
                                              name, " that hold on all nodes, and no tenant")
                               : absl::StrCat("tenants drop ends the sessions of ", name,
                                              " and erases its blocks, secret and settings");
    return Wrong(absl::StrCat(what, "; add --yes to confirm"));
  }
  // The verb looks at each block on disk, or rewrites a part of each disk's manifest.
  if (!ValueOf(pieces, "--timeout")) arguments->timeout = convert::kMaxTimeout;
  return absl::OkStatus();
}

// Returns whether the text has the form "GPU-8-4-4-4-12" of hexadecimal digits.
bool IsGpuUuid(const std::string& text) {
  constexpr absl::string_view kForm = "GPU-00000000-0000-0000-0000-000000000000";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? !absl::ascii_isxdigit(text[i]) : text[i] != kForm[i]) return false;
  }
  return true;
}

absl::Status ReadResize(const Pieces& pieces, Arguments* arguments) {
  const std::string verb = absl::StrCat(pieces.words[0], " resize");
  if (pieces.words.size() != 3) {
    return Wrong(absl::StrCat(verb, " needs one size, for example 40GiB"));
  }
  const absl::StatusOr<uint64_t> bytes = ParseBytes(pieces.words[2]);
  if (!bytes.ok() || *bytes == 0) {
    return Wrong(absl::StrCat(verb, " takes a size of memory, for example 40GiB, not '",
                              pieces.words[2], "'"));
  }
  arguments->resize_bytes = *bytes;
  const auto device = ValueOf(pieces, "--device");
  if (!device) return absl::OkStatus();
  if (!IsGpuUuid(*device)) {
    return Wrong(absl::StrCat("--device must be the UUID of a GPU that kvtier tiers shows, not '",
                              *device, "'"));
  }
  if (arguments->agents.size() > 1) {
    return Wrong("gpu resize --device names a GPU of one node; name one --agent");
  }
  arguments->gpu_device = *device;
  return absl::OkStatus();
}

absl::Status ReadDiskVerify(const Pieces& pieces, Arguments* arguments) {
  const auto text = ValueOf(pieces, "--rate");
  if (!text) return absl::OkStatus();
  const absl::StatusOr<uint64_t> rate = ParseBytes(*text);
  if (!rate.ok() || *rate == 0) {
    return Wrong(
        absl::StrCat("--rate must be bytes a second, for example 64MiB, not '", *text, "'"));
  }
  arguments->rate = *rate;
  return absl::OkStatus();
}

absl::Status ReadDoctor(const Pieces& pieces, Arguments* arguments) {
  if (const auto directory = ValueOf(pieces, "--socket-dir")) arguments->socket_dir = *directory;
  if (const auto found = pieces.options.find("--disk-dir"); found != pieces.options.end()) {
    arguments->disk_dirs = found->second;
  }
  if (const auto text = ValueOf(pieces, "--uid")) {
    uint32_t uid = 0;
    if (!absl::SimpleAtoi(*text, &uid)) {
      return Wrong(
          absl::StrCat("--uid must be the number of a user, for example 1000, not '", *text, "'"));
    }
    arguments->uid = uid;
  }
  return absl::OkStatus();
}

// Reads the verb that `kvtier help` is asked about; words behind it are ignored, as of
// `kvtier tenants set acme --help`.
absl::Status ReadHelp(const Pieces& pieces, Arguments* arguments) {
  const std::vector<std::string> asked(pieces.words.begin() + 1, pieces.words.end());
  if (asked.empty()) return absl::OkStatus();
  KVT_ASSIGN_OR_RETURN(arguments->helped, FindVerb(asked));
  return absl::OkStatus();
}

absl::Status ReadSettings(const Pieces& pieces, Arguments* arguments) {
  const std::vector<std::string>& words = pieces.words;
  if (words.size() == 1 || (words[1] == "get" && words.size() <= 3)) {
    if (words.size() == 3) arguments->setting_name = words[2];
    return absl::OkStatus();
  }
  if (words[1] != "set" || words.size() != 3) {
    return Wrong("settings takes no other word than get [NAME] or set NAME=VALUE");
  }
  const size_t equals = words[2].find('=');
  if (equals == 0 || equals == std::string::npos) {
    return Wrong(absl::StrCat("settings set takes NAME=VALUE, not '", words[2], "'"));
  }
  arguments->setting_name = words[2].substr(0, equals);
  arguments->setting_value = words[2].substr(equals + 1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Arguments> ParseArguments(std::span<const std::string> words) {
  KVT_ASSIGN_OR_RETURN(Pieces pieces, TakeApart(words));
  Arguments arguments;
  if (pieces.help) {
    if (pieces.words.empty() || pieces.words[0] != "help") {
      pieces.words.insert(pieces.words.begin(), "help");
    }
    pieces.options.clear();
  }
  KVT_ASSIGN_OR_RETURN(const VerbEntry* const verb, FindVerb(pieces.words));
  KVT_RETURN_IF_ERROR(CheckTaken(*verb, pieces));
  arguments.verb = verb->verb;
  KVT_RETURN_IF_ERROR(ReadCommon(pieces, &arguments));
  if (arguments.verb == Verb::kLookup) KVT_RETURN_IF_ERROR(ReadLookup(pieces, &arguments));
  if (arguments.verb == Verb::kEvict) KVT_RETURN_IF_ERROR(ReadEvict(pieces, &arguments));
  if (arguments.verb == Verb::kTenantErase) {
    KVT_RETURN_IF_ERROR(ReadTenantErase(pieces, &arguments));
  }
  if (arguments.verb == Verb::kPinsList || arguments.verb == Verb::kPinsDrop) {
    KVT_RETURN_IF_ERROR(ReadPins(pieces, &arguments));
  }
  if (arguments.verb == Verb::kPrefixDrop) KVT_RETURN_IF_ERROR(ReadPrefixDrop(pieces, &arguments));
  if (verb->words == "tenants" || absl::StartsWith(verb->words, "tenants ")) {
    KVT_RETURN_IF_ERROR(ReadTenants(pieces, &arguments));
  }
  if (arguments.verb == Verb::kGpuResize || arguments.verb == Verb::kHostResize) {
    KVT_RETURN_IF_ERROR(ReadResize(pieces, &arguments));
  }
  if (arguments.verb == Verb::kDiskVerify) {
    KVT_RETURN_IF_ERROR(ReadDiskVerify(pieces, &arguments));
  }
  if (arguments.verb == Verb::kDoctor) KVT_RETURN_IF_ERROR(ReadDoctor(pieces, &arguments));
  if (arguments.verb == Verb::kSize) {
    KVT_ASSIGN_OR_RETURN(arguments.size, SizeQuestionFrom(pieces.options));
  }
  if (arguments.verb == Verb::kSettings) KVT_RETURN_IF_ERROR(ReadSettings(pieces, &arguments));
  if (arguments.verb == Verb::kHelp) KVT_RETURN_IF_ERROR(ReadHelp(pieces, &arguments));
  if (arguments.verb == Verb::kMan) {
    if (pieces.words.size() != 2) return Wrong("man needs one directory to write the pages to");
    arguments.man_dir = pieces.words[1];
  }
  if (arguments.verb == Verb::kCompletion &&
      pieces.words != std::vector<std::string>{"completion", "bash"}) {
    return Wrong("completion needs the name of a shell: bash");
  }
  return arguments;
}

}  // namespace kvtier::cli
