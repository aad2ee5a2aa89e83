#include "cli/config_members.h"

#include <cmath>
#include <cstddef>

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

// Returns the value as JSON, shortened.
std::string ShownValue(const Value& value) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) return "?";
  if (json.size() <= kMaxShownValue) return json;
  return absl::StrCat(json.substr(0, kMaxShownValue), "...");
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

const Value* ValueIn(const Struct& object, const char* name) {
  const auto found = object.fields().find(name);
  const bool is_there = found != object.fields().end() && !found->second.has_null_value();
  return is_there ? &found->second : nullptr;
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
  ConfigMembers config;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(WithoutPythonNumbers(json), &config.members_);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is not a JSON object: ", std::string(parsed.message())));
  }
  const char* name = "";
  const Value* const text = config.Find({"text_config", "llm_config"}, &name);
  if (text == nullptr) return config;
  if (!text->has_struct_value()) return WrongMember(name, "an object", *text);
  ConfigMembers part;
  part.members_ = text->struct_value();
  part.shared_ = config.members_;
  part.is_part_ = true;
  return part;
}

const Value* ConfigMembers::Find(std::initializer_list<const char*> names,
                                 const char** found) const {
  for (const char* name : names) {
    const Value* const value = ValueIn(members_, name);
    if (value == nullptr) continue;
    if (found != nullptr) *found = name;
    return value;
  }
  return nullptr;
}

std::string ConfigMembers::NameThatBegins(std::initializer_list<const char*> prefixes) const {
  std::string first;
  for (const auto& [name, value] : members_.fields()) {
    const bool is_false = value.has_bool_value() && !value.bool_value();
    if (value.has_null_value() || is_false) continue;
    if (!first.empty() && first < name) continue;
    for (const char* prefix : prefixes) {
      if (absl::StartsWith(name, prefix)) first = name;
    }
  }
  return first;
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

bool ConfigMembers::IsTrue(const char* name) const {
  const Value* const value = Find({name});
  return value != nullptr && value->bool_value();
}

bool ConfigMembers::IsFalse(const char* name) const {
  const Value* const value = Find({name});
  return value != nullptr && value->has_bool_value() && !value->bool_value();
}

ConfigMembers ConfigMembers::Inner(const char* name) const {
  ConfigMembers inner;
  if (const Value* const value = Find({name})) inner.members_ = value->struct_value();
  return inner;
}

}  // namespace kvtier::cli
