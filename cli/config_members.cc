#include "cli/config_members.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace kvtier::cli {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

// Longest value that an error shows whole, in bytes of its JSON.
constexpr size_t kMaxShownValue = 60;

// Returns the text, shortened.
std::string Shortened(absl::string_view text) {
  if (text.size() <= kMaxShownValue) return std::string(text);
  return absl::StrCat(text.substr(0, kMaxShownValue), "...");
}

// Returns the value as JSON, shortened.
std::string ShownValue(const Value& value) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) return "?";
  return Shortened(json);
}

absl::Status WrongMember(absl::string_view name, absl::string_view must_be, const Value& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", must_be, ", not ", ShownValue(value)));
}

absl::StatusOr<uint64_t> WholeNumber(absl::string_view name, const Value& value) {
  const double number = value.number_value();
  if (!value.has_number_value() || number < 0 || number != std::floor(number) ||
      number > static_cast<double>(kMaxConfigNumber)) {
    return WrongMember(name, absl::StrCat("a whole number up to ", kMaxConfigNumber), value);
  }
  return static_cast<uint64_t>(number);
}

const Value* ValueIn(const Struct& object, const std::string& name) {
  const auto found = object.fields().find(name);
  const bool is_there = found != object.fields().end() && !found->second.has_null_value();
  return is_there ? &found->second : nullptr;
}

// Returns whether the value says that what its member is about does not exist: -1 stands for no
// window, and a ratio of 1 changes nothing.
bool IsOff(absl::string_view name, const Value& value) {
  if (value.has_bool_value()) return !value.bool_value();
  if (value.has_number_value()) {
    const double number = value.number_value();
    return number < 0 || (number == 1 && absl::EndsWith(name, "ratio"));
  }
  return value.has_null_value() || value.string_value() == "auto";
}

// Refuses a text of more brackets or entries than a config.json has. Parsing takes microseconds for
// each of them.
absl::Status CheckShape(absl::string_view json) {
  size_t depth = 0;
  size_t entries = 0;
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ',') {
      ++entries;
    }
    if (depth > kMaxConfigDepth || entries > kMaxConfigEntries) {
      return absl::InvalidArgumentError(
          depth > kMaxConfigDepth
              ? absl::StrCat("this is no model's config.json: more than ", kMaxConfigDepth,
                             " brackets are open at once; name another file")
              : absl::StrCat("this is no model's config.json: it has more than ", kMaxConfigEntries,
                             " entries; name another file"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string WithoutPythonNumbers(absl::string_view json) {
  std::string text;
  text.reserve(json.size());
  bool in_string = false;
  for (size_t at = 0; at < json.size();) {
    size_t taken = 1;
    absl::string_view kept = json.substr(at, 1);
    if (in_string && json[at] == '\\') {
      taken = 2;
      kept = json.substr(at, taken);
    } else if (json[at] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const absl::string_view token : {"-Infinity", "Infinity", "NaN"}) {
        if (!absl::StartsWith(json.substr(at), token)) continue;
        taken = token.size();
        kept = "null";
        break;
      }
    }
    absl::StrAppend(&text, kept);
    at += taken;
  }
  return text;
}

absl::StatusOr<ConfigMembers> ConfigMembers::FromJson(absl::string_view json) {
  KVT_RETURN_IF_ERROR(CheckShape(json));
  ConfigMembers config;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(WithoutPythonNumbers(json), &config.members_);
  if (!parsed.ok()) {
    // The lines after the first one quote the file.
    const std::string why(parsed.message());
    return absl::InvalidArgumentError(
        absl::StrCat("this is not a JSON object: ", Shortened(why.substr(0, why.find('\n')))));
  }
  KVT_RETURN_IF_ERROR(config.EnterTextModel());
  config.TakeDefaults();
  return config;
}

ConfigMembers ConfigMembers::OfObject(const Struct& object) {
  ConfigMembers inner;
  inner.members_ = object;
  inner.is_inner_ = true;
  return inner;
}

// Takes the members of the innermost text model for `members_`. Those around it are shared; the
// inner ones replace the outer ones.
absl::Status ConfigMembers::EnterTextModel() {
  for (bool entered = true; entered;) {
    entered = false;
    for (const char* const name : TextModelNames()) {
      const Value* const text = ValueIn(members_, name);
      if (text == nullptr) continue;
      if (!text->has_struct_value()) return WrongMember(name, "an object", *text);
      Struct part = text->struct_value();
      for (const auto& [shared, value] : members_.fields()) {
        (*shared_.mutable_fields())[shared] = value;
      }
      members_ = std::move(part);
      is_part_ = true;
      entered = true;
      break;
    }
  }
  return absl::OkStatus();
}

bool ConfigMembers::IsNamed(absl::string_view name) const {
  return members_.fields().contains(std::string(name));
}

// Adds what the class of the model has by default. A member that is null is not absent.
void ConfigMembers::TakeDefaults() {
  const ClassDefaults* const defaults = DefaultsOf(SharedText({"model_type"}));
  if (defaults == nullptr) return;
  const auto take = [this](const char* name, uint64_t number) {
    if (number == 0 || IsNamed(name)) return;
    (*members_.mutable_fields())[name].set_number_value(static_cast<double>(number));
  };
  take("hidden_size", defaults->hidden_size);
  take("num_hidden_layers", defaults->layers);
  take("num_attention_heads", defaults->heads);
  take("num_key_value_heads", defaults->kv_heads);
  take("head_dim", defaults->head_dim);
  take("sliding_window", defaults->window);
  take("global_head_dim", defaults->global_head_dim);
  const bool says_pattern =
      IsNamed("sliding_window_pattern") || IsNamed("layer_types") || IsNamed("layer_switch");
  if (!says_pattern) take("_sliding_window_pattern", defaults->window_pattern);
}

const Value* ConfigMembers::Find(std::initializer_list<const char*> names,
                                 const char** found) const {
  for (const char* name : names) {
    // The table has each member that is read.
    KVT_CHECK(is_inner_ || RoleOf(name) == MemberRole::kCounted);
    const Value* const value = ValueIn(members_, name);
    if (value == nullptr) continue;
    if (found != nullptr) *found = name;
    return value;
  }
  return nullptr;
}

std::string ConfigMembers::FirstOf(MemberRole role,
                                   MemberRole (*role_of)(absl::string_view)) const {
  std::string first;
  for (const auto& [name, value] : members_.fields()) {
    const bool is_later = !first.empty() && first < name;
    if (!is_later && !IsOff(name, value) && role_of(name) == role) first = name;
  }
  return first.empty() ? first : absl::StrCat(Shortened(first), " (", Shown(first), ")");
}

std::string ConfigMembers::FirstOf(MemberRole role) const {
  const std::string first = FirstOf(role, RoleOf);
  if (!first.empty() || role == MemberRole::kOfLayers) return first;
  return OfObject(shared_).FirstOf(role, RoleOf);
}

std::string ConfigMembers::Shown(const std::string& name) const {
  return ShownValue(members_.fields().at(name));
}

absl::StatusOr<std::optional<uint64_t>> ConfigMembers::Number(
    std::initializer_list<const char*> names) const {
  const char* name = "";
  const Value* const value = Find(names, &name);
  if (value == nullptr) return std::nullopt;
  KVT_ASSIGN_OR_RETURN(const uint64_t number, WholeNumber(name, *value));
  return number;
}

absl::StatusOr<uint64_t> ConfigMembers::NumberUnless(uint64_t given,
                                                     std::initializer_list<const char*> names,
                                                     const char* option) const {
  if (given != 0) return given;
  KVT_ASSIGN_OR_RETURN(const std::optional<uint64_t> number, Number(names));
  if (number.has_value()) return *number;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no ", *names.begin(), "; give ", option));
}

absl::StatusOr<const ListValue*> ConfigMembers::List(const char* name, const char* kind) const {
  const Value* const value = Find({name});
  KVT_CHECK(value != nullptr);
  if (!value->has_list_value() || value->list_value().values().empty()) {
    return WrongMember(name, absl::StrCat(kind, " with one entry or more"), *value);
  }
  return &value->list_value();
}

absl::StatusOr<std::vector<std::string>> ConfigMembers::Texts(const char* name) const {
  KVT_ASSIGN_OR_RETURN(const ListValue* const list, List(name, "a list of texts"));
  std::vector<std::string> texts;
  for (const Value& value : list->values()) {
    if (!value.has_string_value()) return WrongMember(name, "a list of texts", value);
    texts.push_back(value.string_value());
  }
  return texts;
}

absl::StatusOr<std::vector<uint64_t>> ConfigMembers::Numbers(const char* name) const {
  KVT_ASSIGN_OR_RETURN(const ListValue* const list, List(name, "a list of whole numbers"));
  std::vector<uint64_t> numbers;
  for (const Value& value : list->values()) {
    KVT_ASSIGN_OR_RETURN(const uint64_t number,
                         WholeNumber(absl::StrCat("each entry of ", name), value));
    numbers.push_back(number);
  }
  return numbers;
}

bool ConfigMembers::IsEmptyList(const char* name) const {
  const Value* const value = Find({name});
  return value != nullptr && value->has_list_value() && value->list_value().values().empty();
}

std::string ConfigMembers::Text(std::initializer_list<const char*> names) const {
  const Value* const value = Find(names);
  return value == nullptr ? "" : value->string_value();
}

std::string ConfigMembers::SharedText(std::initializer_list<const char*> names) const {
  std::string text = Text(names);
  for (const char* name : names) {
    const Value* const value = ValueIn(shared_, name);
    if (text.empty() && value != nullptr) text = value->string_value();
  }
  return text;
}

bool ConfigMembers::IsClass(absl::string_view start) const {
  return absl::StartsWith(SharedText({"model_type"}), start);
}

bool ConfigMembers::IsTrue(const char* name) const {
  const Value* const value = Find({name});
  return value != nullptr && value->bool_value();
}

bool ConfigMembers::IsTrueAnywhere(const char* name) const {
  const Value* const value = ValueIn(shared_, name);
  return IsTrue(name) || (value != nullptr && value->bool_value());
}

bool ConfigMembers::IsFalse(const char* name) const {
  const Value* const value = Find({name});
  return value != nullptr && value->has_bool_value() && !value->bool_value();
}

ConfigMembers ConfigMembers::Inner(const char* name) const {
  const Value* const value = Find({name});
  return OfObject(value == nullptr ? Struct() : value->struct_value());
}

ConfigMembers ConfigMembers::SharedInner(const char* name) const {
  if (Has({name})) return Inner(name);
  const Value* const value = ValueIn(shared_, name);
  return OfObject(value == nullptr ? Struct() : value->struct_value());
}

absl::StatusOr<std::vector<ConfigMembers>> ConfigMembers::Objects(const char* name) const {
  KVT_ASSIGN_OR_RETURN(const ListValue* const list, List(name, "a list of objects"));
  std::vector<ConfigMembers> objects;
  for (const Value& value : list->values()) {
    if (!value.has_struct_value()) return WrongMember(name, "a list of objects", value);
    objects.push_back(OfObject(value.struct_value()));
  }
  return objects;
}

std::vector<std::string> ConfigMembers::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : members_.fields()) {
    if (!value.has_null_value()) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace kvtier::cli
