// The table of a config.json: which of its members decide what a model keeps, which do not, and
// which others are refused because their names suggest that they do. It also says what classes of
// models (`model_type`) leave out of their config.json, and which keep no keys and values.
#ifndef KVTIER_CLI_CONFIG_TABLE_H_
#define KVTIER_CLI_CONFIG_TABLE_H_

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace kvtier::cli {

enum class MemberRole {
  kCounted,   // A reader takes it: it decides what is kept.
  kIgnored,   // It changes no byte of what is kept.
  kOfLayers,  // It matters only where nothing else says which layers keep what.
  kOfType,    // It may change the type of the numbers; --dtype stands for it.
  kSuspect,   // Its name suggests that it decides what is kept, and no reader knows it.
};

// Returns the role of a member of a text model, by its name.
MemberRole RoleOf(absl::string_view name);
// Returns the role of a member of `attn_config` (MPT, DBRX).
MemberRole RoleInAttention(absl::string_view name);

// Values that a class of models takes where its config.json has no such member.
struct ClassDefaults {
  absl::string_view type;
  uint64_t hidden_size = 0;
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t kv_heads = 0;         // 0: as many as heads.
  uint64_t head_dim = 0;         // 0: hidden_size / heads.
  uint64_t window = 0;           // Tokens; 0: none.
  uint64_t window_pattern = 0;   // Each n-th layer has no window; 0: no such rule.
  uint64_t global_head_dim = 0;  // Width of heads in layers without a window; 0: head_dim.
};

// Returns the defaults of the class; nullptr: they are not known.
const ClassDefaults* DefaultsOf(absl::string_view model_type);
// Returns whether the class has a width of heads by default that does not follow from other
// members, so that a config.json without one cannot be counted unless DefaultsOf() knows it.
bool HasHeadWidthByDefault(absl::string_view model_type);
// Returns why a model of this class cannot be counted; empty: it can.
absl::string_view WhyNotCounted(absl::string_view model_type);
// Returns the names of the members that have the text model, where a config has several models.
std::span<const char* const> TextModelNames();

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_CONFIG_TABLE_H_
