#include "cli/units.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kvtier::cli {
namespace {

// Returns three significant digits: 1.50, 15.0, 150.
std::string ThreeDigits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

// Returns "3 d 4 h": the larger unit and what is left in the smaller one.
std::string TwoUnits(uint64_t seconds, uint64_t large, const char* large_name, uint64_t small,
                     const char* small_name) {
  return absl::StrCat(seconds / large, " ", large_name, " ", seconds % large / small, " ",
                      small_name);
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.5 would print as "1024": it belongs to the next unit.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrCat(ThreeDigits(value), " ", kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds)) return "?";
  if (seconds == 0) return "0 s";
  if (seconds < 999.5e-6) return absl::StrCat(ThreeDigits(seconds * 1e6), " us");
  if (seconds < 999.5e-3) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  if (seconds < 60) return absl::StrCat(ThreeDigits(seconds), " s");
  const auto whole = static_cast<uint64_t>(seconds);
  if (whole < 3600) return TwoUnits(whole, 60, "min", 1, "s");
  if (whole < 86400) return TwoUnits(whole, 3600, "h", 60, "min");
  return TwoUnits(whole, 86400, "d", 3600, "h");
}

std::string CountText(uint64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t from_end = 3; from_end < text.size(); from_end += 4) {
    text.insert(text.size() - from_end, 1, ',');
  }
  return text;
}

std::string ShareText(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return absl::StrFormat("%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace kvtier::cli
