#include "agent/disk/fsck_report.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace kvtier {
namespace {

const char* StateName(FsckReport::SuperblockState state) {
  switch (state) {
    case FsckReport::SuperblockState::kNone:
      return "none";
    case FsckReport::SuperblockState::kGood:
      return "good";
    case FsckReport::SuperblockState::kOneCopyDamaged:
      return "one copy damaged";
    case FsckReport::SuperblockState::kDamaged:
      return "damaged";
  }
  return "";
}

std::string Hex(absl::Span<const uint8_t> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Returns the numbers, by the names that JSON gives them.
std::vector<std::pair<const char*, uint64_t>> Counts(const FsckReport& report) {
  return {{"segments", report.segments},
          {"segment_bytes", report.segment_bytes},
          {"segments_missing", report.segments_missing},
          {"segments_short", report.segments_short},
          {"rows_good", report.rows_good},
          {"rows_damaged", report.rows_damaged},
          {"rows_stale", report.rows_stale},
          {"rows_misfit", report.rows_misfit},
          {"rows_keyless", report.rows_keyless},
          {"records", report.records},
          {"bytes", report.bytes},
          {"records_damaged", report.records_damaged},
          {"records_unreadable", report.records_unreadable},
          {"payloads_unchecked", report.payloads_unchecked},
          {"rows_erased", report.rows_erased}};
}

std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

std::string FsckTable(const std::string& directory, const FsckReport& report) {
  std::string text = absl::StrCat("DISK  ", directory, "\n");
  const auto row = [&](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text, "  %-20s%s\n", name, value);
  };
  row("superblock", StateName(report.superblock_state));
  if (report.superblock) {
    row("disk", Hex(report.superblock->identity.disk.bytes));
    row("incarnation", Hex(report.superblock->identity.incarnation.bytes));
    row("encrypted", report.superblock->key_check ? "yes" : "no");
  }
  for (const auto& [name, count] : Counts(report)) {
    std::string words = name;
    std::replace(words.begin(), words.end(), '_', ' ');
    row(words, absl::StrCat(count));
  }
  const char* const clean = report.payloads_unchecked == 0 ? "clean" : "NOT CHECKED";
  row("result", report.clean() ? clean : "DAMAGED");
  for (const std::string& finding : report.findings) absl::StrAppend(&text, finding, "\n");
  if (report.findings.size() == kMaxFindings) absl::StrAppend(&text, "(more are not shown)\n");
  return text;
}

std::string FsckJson(const std::string& directory, const FsckReport& report) {
  std::vector<std::string> members = {
      "\"schema_version\": 1", absl::StrCat("\"directory\": ", Quoted(directory)),
      absl::StrCat("\"clean\": ", report.clean() ? "true" : "false"),
      absl::StrCat("\"superblock\": ", Quoted(StateName(report.superblock_state)))};
  if (report.superblock) {
    const DiskIdentity& identity = report.superblock->identity;
    members.push_back(absl::StrCat("\"disk_id\": ", Quoted(Hex(identity.disk.bytes))));
    members.push_back(
        absl::StrCat("\"incarnation_id\": ", Quoted(Hex(identity.incarnation.bytes))));
    members.push_back(
        absl::StrCat("\"encrypted\": ", report.superblock->key_check ? "true" : "false"));
  }
  for (const auto& [name, count] : Counts(report)) {
    members.push_back(absl::StrCat("\"", name, "\": ", count));
  }
  std::vector<std::string> findings;
  findings.reserve(report.findings.size());
  for (const std::string& finding : report.findings) {
    findings.push_back("\n    " + Quoted(finding));
  }
  members.push_back(absl::StrCat("\"findings\": [", absl::StrJoin(findings, ","),
                                 findings.empty() ? "]" : "\n  ]"));
  return absl::StrCat("{\n  ", absl::StrJoin(members, ",\n  "), "\n}\n");
}

}  // namespace kvtier
