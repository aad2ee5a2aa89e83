// ConfigMembers reads the members of a model's config.json, each as what it must be. It does not
// know what they mean.
#ifndef KVTIER_CLI_CONFIG_MEMBERS_H_
#define KVTIER_CLI_CONFIG_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/config_table.h"
#include "google/protobuf/struct.pb.h"

namespace kvtier::cli {

// Largest number that is taken for one of a config.json; products of two of them fit in 64 bits.
inline constexpr uint64_t kMaxConfigNumber = 1'000'000'000;
// Most arrays and objects of a config.json that are open at once; published ones have some 6.
inline constexpr size_t kMaxConfigDepth = 32;
// Most members and entries of lists of a config.json; published ones have some thousands.
inline constexpr size_t kMaxConfigEntries = 100'000;

// Returns the text with null in place of NaN, Infinity and -Infinity outside strings: Python writes
// them for numbers, and JSON does not have them.
std::string WithoutPythonNumbers(absl::string_view json);

// Reads the members of the text model, where a config has several models. Several names of one fact
// are those of different families of models. What the class of the model has by default stands for
// members that are absent (DefaultsOf()). Errors: kInvalidArgument, with the member's name, its
// value and what it must be.
class ConfigMembers {
 public:
  // Returns the members of a JSON object.
  static absl::StatusOr<ConfigMembers> FromJson(absl::string_view json);

  // Returns whether the members are those of one model of several. Such a part is published
  // without the values that are the defaults of its class.
  bool IsPart() const { return is_part_; }
  // Returns whether one of the members is there and not null.
  bool Has(std::initializer_list<const char*> names) const { return Find(names) != nullptr; }
  // Returns the first in the alphabet of the members of a role that are not off (null, false,
  // "auto", negative, or a ratio of 1), with its value: "name (value)"; empty: there is none.
  // Members of all the models together count, too, unless the role is kOfLayers.
  std::string FirstOf(MemberRole role) const;
  // Returns the same where `role_of` says the role; members of this model alone count.
  std::string FirstOf(MemberRole role, MemberRole (*role_of)(absl::string_view)) const;

  // Returns the first of the members that are there; nullopt: none is.
  absl::StatusOr<std::optional<uint64_t>> Number(std::initializer_list<const char*> names) const;
  // Returns `given`, if it is not 0, or else Number(). Errors, too: there is neither; the error
  // names `option`, which gives the number.
  absl::StatusOr<uint64_t> NumberUnless(uint64_t given, std::initializer_list<const char*> names,
                                        const char* option) const;
  // Returns the entries of a list that must have at least one. REQUIRES: Has({name}).
  absl::StatusOr<std::vector<std::string>> Texts(const char* name) const;
  absl::StatusOr<std::vector<uint64_t>> Numbers(const char* name) const;
  bool IsEmptyList(const char* name) const;
  // Returns the text; empty: the member is absent or no text.
  std::string Text(std::initializer_list<const char*> names) const;
  // Returns the text, which may also be said of all the models together.
  std::string SharedText(std::initializer_list<const char*> names) const;
  // Returns whether the name of the model's class (`model_type`) starts so.
  bool IsClass(absl::string_view start) const;
  bool IsTrue(const char* name) const;
  // Returns whether it is true here or in the config of all the models.
  bool IsTrueAnywhere(const char* name) const;
  bool IsFalse(const char* name) const;
  // Returns the members of an object among the members; no members: it is absent.
  ConfigMembers Inner(const char* name) const;
  // Returns the same of the config of all the models, where this model has no such object.
  ConfigMembers SharedInner(const char* name) const;
  // Returns the objects of a list that must have at least one. REQUIRES: Has({name}).
  absl::StatusOr<std::vector<ConfigMembers>> Objects(const char* name) const;
  // Returns the names of the members that are not null, in the order of the alphabet.
  std::vector<std::string> Names() const;
  // Returns the value as an error shows it. REQUIRES: Has({name}).
  std::string Shown(const std::string& name) const;

 private:
  ConfigMembers() = default;
  static ConfigMembers OfObject(const google::protobuf::Struct& object);
  absl::Status EnterTextModel();
  void TakeDefaults();
  bool IsNamed(absl::string_view name) const;
  const google::protobuf::Value* Find(std::initializer_list<const char*> names,
                                      const char** found = nullptr) const;
  absl::StatusOr<const google::protobuf::ListValue*> List(const char* name, const char* kind) const;

  google::protobuf::Struct members_;
  google::protobuf::Struct shared_;  // Members of the whole config, if `members_` are a part.
  bool is_part_ = false;
  bool is_inner_ = false;  // Whether the members are those of an object of the text model.
};

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_CONFIG_MEMBERS_H_
