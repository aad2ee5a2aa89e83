#include "tier_gpu/plan/calibration_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr absl::string_view kFirstLine = "kvtier-measured-paths 1";
constexpr absl::string_view kLastWord = "cells ";
constexpr size_t kMaxWordBytes = 128;
constexpr size_t kMaxQuotedBytes = 80;  // Of a wrong line, in an error.
constexpr int64_t kMaxNanoseconds = int64_t{3600} * 1'000'000'000;

constexpr std::array<absl::string_view, kCopyDirections> kDirectionNames = {"h2d", "d2h"};
constexpr std::array<absl::string_view, kCopyPaths> kPathNames = {"batch", "staged", "direct"};

bool IsWord(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxWordBytes &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isgraph(c) != 0; });
}

std::vector<CalibrationCell> AllCells() {
  std::vector<CalibrationCell> cells;
  for (size_t direction = 0; direction < kCopyDirections; ++direction) {
    for (size_t size = 0; size < kCalibrationSizes.size(); ++size) {
      for (size_t count = 0; count < kCalibrationCounts.size(); ++count) {
        for (size_t path = 0; path < kCopyPaths; ++path) {
          cells.push_back({.direction = static_cast<CopyDirection>(direction),
                           .path = static_cast<CopyPath>(path),
                           .size = size,
                           .count = count});
        }
      }
    }
  }
  return cells;
}

std::string NameOf(const CalibrationCell& cell) {
  return absl::StrCat(kDirectionNames[static_cast<size_t>(cell.direction)], " ",
                      kCalibrationSizes[cell.size], " ", kCalibrationCounts[cell.count], " ",
                      kPathNames[static_cast<size_t>(cell.path)]);
}

absl::Status Wrong(size_t line, absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("calibration: line ", line, ": ", what, ": '",
                                                 text.substr(0, kMaxQuotedBytes), "'"));
}

template <typename Values, typename Value>
std::optional<size_t> IndexOf(const Values& values, const Value& value) {
  const auto found = std::ranges::find(values, value);
  if (found == values.end()) return std::nullopt;
  return static_cast<size_t>(found - values.begin());
}

// Where a number stands in `points`, written as we write it.
template <typename Points>
std::optional<size_t> PointOf(const Points& points, absl::string_view text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || absl::StrCat(number) != text) return std::nullopt;
  return IndexOf(points, number);
}

struct ParsedCell {
  CalibrationCell cell;
  absl::Duration time;
};

absl::StatusOr<ParsedCell> ParseCell(size_t line, absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 5) return Wrong(line, "not the five words of a cell", text);
  const std::optional<size_t> direction = IndexOf(kDirectionNames, words[0]);
  if (!direction) return Wrong(line, "no direction", words[0]);
  const std::optional<size_t> size = PointOf(kCalibrationSizes, words[1]);
  if (!size) return Wrong(line, "no size of the table", words[1]);
  const std::optional<size_t> count = PointOf(kCalibrationCounts, words[2]);
  if (!count) return Wrong(line, "no count of the table", words[2]);
  const std::optional<size_t> path = IndexOf(kPathNames, words[3]);
  if (!path) return Wrong(line, "no path", words[3]);
  int64_t nanoseconds = 0;
  const bool is_number = absl::SimpleAtoi(words[4], &nanoseconds);
  if (!is_number || nanoseconds < 1 || nanoseconds > kMaxNanoseconds) {
    return Wrong(line, "no time of up to an hour", words[4]);
  }
  return ParsedCell{.cell = {.direction = static_cast<CopyDirection>(*direction),
                             .path = static_cast<CopyPath>(*path),
                             .size = *size,
                             .count = *count},
                    .time = absl::Nanoseconds(nanoseconds)};
}

}  // namespace

std::string FormatCalibration(const Calibration& calibration) {
  const CalibratedDevice& device = calibration.device;
  KVT_CHECK(IsWord(device.gpu) && IsWord(device.driver));
  std::string text =
      absl::StrCat(kFirstLine, "\ngpu ", device.gpu, " driver ", device.driver, "\n");
  size_t cells = 0;
  for (const CalibrationCell& cell : AllCells()) {
    const absl::Duration time = calibration.table.measured(cell);
    if (time == absl::ZeroDuration()) continue;
    ++cells;
    // A measured time is never none.
    const int64_t rounded = absl::ToInt64Nanoseconds(time + absl::Nanoseconds(1) / 2);
    absl::StrAppend(&text, NameOf(cell), " ", std::max<int64_t>(rounded, 1), "\n");
  }
  absl::StrAppend(&text, kLastWord, cells, "\n");
  return text;
}

absl::StatusOr<CalibrationTable> ParseCalibration(absl::string_view text,
                                                  const CalibratedDevice& device,
                                                  const LinkModel& link) {
  if (PredictJob(link, {.segment_bytes = 1, .segments = 1}, CopyPath::kBatch) ==
      absl::ZeroDuration()) {
    return absl::InvalidArgumentError("calibration: the link model says that copies take no time");
  }
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  if (lines.empty() || lines[0] != kFirstLine) {
    return Wrong(1, absl::StrCat("not '", kFirstLine, "'"), lines.empty() ? "" : lines[0]);
  }
  const std::vector<absl::string_view> words =
      lines.size() < 2 ? std::vector<absl::string_view>{} : absl::StrSplit(lines[1], ' ');
  if (words.size() != 4 || words[0] != "gpu" || !IsWord(words[1]) || words[2] != "driver" ||
      !IsWord(words[3])) {
    return Wrong(2, "not a gpu and a driver", lines.size() < 2 ? "" : lines[1]);
  }
  if (words[1] != device.gpu || words[3] != device.driver) {
    return absl::FailedPreconditionError(absl::StrCat("calibration: of gpu ", words[1], " driver ",
                                                      words[3], ", not of gpu ", device.gpu,
                                                      " driver ", device.driver));
  }
  CalibrationTable table(link);
  absl::flat_hash_set<std::string> found;
  for (size_t i = 2; i + 1 < lines.size(); ++i) {
    KVT_ASSIGN_OR_RETURN(const ParsedCell parsed, ParseCell(i + 1, lines[i]));
    if (!found.insert(NameOf(parsed.cell)).second) return Wrong(i + 1, "there twice", lines[i]);
    table.Set(parsed.cell, parsed.time);
  }
  const std::string last = absl::StrCat(kLastWord, found.size());
  if (lines.size() < 3 || lines.back() != last) {
    return Wrong(lines.size(), absl::StrCat("not '", last, "'"), lines.back());
  }
  return table;
}

}  // namespace kvtier
