#include "core/byte_size.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvtier {

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  struct Unit {
    const char* suffix;
    int shift;
  };
  constexpr Unit kUnits[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"", 0}};
  for (const Unit& unit : kUnits) {
    if (!absl::EndsWith(text, unit.suffix)) continue;
    uint64_t count = 0;
    const absl::string_view digits =
        text.substr(0, text.size() - absl::string_view(unit.suffix).size());
    if (!absl::SimpleAtoi(digits, &count) || count > (UINT64_MAX >> unit.shift)) break;
    return count << unit.shift;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is no size; must be a whole number of bytes, KiB, MiB, GiB or TiB"));
}

}  // namespace kvtier
