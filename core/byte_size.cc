#include "core/byte_size.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvtier {

namespace {

struct ByteUnit {
  const char* suffix;
  int shift;
};

// The largest is first; the plain byte, whose suffix ends every text, is last.
constexpr ByteUnit kByteUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  for (const ByteUnit& unit : kByteUnits) {
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

std::string ByteSizeText(uint64_t bytes) {
  for (const ByteUnit& unit : kByteUnits) {
    const uint64_t count = bytes >> unit.shift;
    if (count > 0 && (count << unit.shift) == bytes) return absl::StrCat(count, unit.suffix);
  }
  return "0";
}

}  // namespace kvtier
