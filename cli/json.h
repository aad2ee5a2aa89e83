// JsonWriter writes one JSON object, indented by two spaces, members in the order of
// the calls: the same answer gives the same bytes.
#ifndef KVTIER_CLI_JSON_H_
#define KVTIER_CLI_JSON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace kvtier::cli {

// Bumped when a member goes away or changes its meaning; new members do not.
inline constexpr uint64_t kJsonSchemaVersion = 1;

class JsonWriter {
 public:
  // Opens the outermost object, whose first member is "schema_version".
  JsonWriter();

  // Count() and the functions after it write a member of the innermost object. They are no
  // overloads of one name, because a string literal would convert to bool.
  void Count(absl::string_view name, uint64_t value);
  // Writes seconds, or null for a value that is not finite.
  void Seconds(absl::string_view name, double value);
  void Ratio(absl::string_view name, double value) { Seconds(name, value); }  // See Seconds().
  void Text(absl::string_view name, absl::string_view value);
  void Flag(absl::string_view name, bool value);
  void Null(absl::string_view name);

  void OpenObject(absl::string_view name);
  void OpenArray(absl::string_view name);
  void OpenElement();  // Opens an object in the innermost array.
  void Close();        // Closes what was opened last.

  // Closes the outermost object. REQUIRES: everything else is closed. Call once.
  std::string Finish();

 private:
  void Begin();
  void BeginMember(absl::string_view name);
  void Open(char bracket);

  std::string out_;
  std::string closers_;  // '}' or ']' of what is open, outermost first.
  bool first_ = true;    // Whether the innermost object or array has no entry yet.
};

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_JSON_H_
