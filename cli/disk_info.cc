#include "cli/disk_info.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json.h"
#include "cli/table.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

using v1::DiskReport;

std::string StateOf(const DiskReport& disk) {
  if (disk.id().empty()) return "not open";
  return disk.serving() ? "serving" : "out";
}

// Returns the bytes written to the disk for each byte of a block put there.
std::string AmplificationOf(const DiskReport& disk) {
  if (disk.write_amplification() == 0) return "-";
  return absl::StrFormat("%.2f", disk.write_amplification());
}

std::string BudgetOf(const DiskReport& disk) {
  if (disk.budget_bytes_per_day() == 0) return "-";
  return BytesText(disk.budget_left_bytes());
}

// Returns one line for each disk: there are few, and a directory is long.
std::string DisksOf(const v1::AgentStatusResponse& status) {
  if (status.disks().empty()) return "  no disk\n";
  Table table({{"DIRECTORY"},
               {"STATE"},
               {"I/O"},
               {"CAPACITY", Align::kRight},
               {"USED", Align::kRight},
               {"FULL", Align::kRight},
               {"BLOCKS", Align::kRight},
               {"MEMORY", Align::kRight},
               {"BYTES IN", Align::kRight},
               {"BYTES OUT", Align::kRight},
               {"WRITTEN", Align::kRight},
               {"WRITE AMP", Align::kRight},
               {"BUDGET LEFT", Align::kRight},
               {"ERRORS", Align::kRight},
               {"QUARANTINES", Align::kRight}},
              /*indent=*/2);
  Table said({{""}, {""}, {""}}, /*indent=*/2);
  for (const DiskReport& disk : status.disks()) {
    table.AddRow({disk.directory(), StateOf(disk), disk.io(), BytesText(disk.capacity_bytes()),
                  BytesText(disk.used_bytes()), ShareText(disk.used_bytes(), disk.capacity_bytes()),
                  CountText(disk.blocks()), BytesText(disk.index_bytes() + disk.manifest_bytes()),
                  BytesText(disk.bytes_in()), BytesText(disk.bytes_out()),
                  BytesText(disk.written_bytes()), AmplificationOf(disk), BudgetOf(disk),
                  CountText(disk.io_errors()), CountText(disk.quarantines())});
    said.AddRow({disk.directory(), disk.id(),
                 absl::StrCat(disk.health(), disk.encrypted() ? ", encrypted" : "")});
  }
  return table.ToString() + said.ToString();
}

void WriteDisk(const DiskReport& disk, JsonWriter* json) {
  json->Text("id", disk.id());
  json->Text("directory", disk.directory());
  json->Text("io", disk.io());
  json->Flag("encrypted", disk.encrypted());
  json->Flag("serving", disk.serving());
  json->Text("health", disk.health());
  json->Count("quarantines", disk.quarantines());
  json->Count("blocks", disk.blocks());
  json->Count("capacity_bytes", disk.capacity_bytes());
  json->Count("used_bytes", disk.used_bytes());
  json->Count("index_bytes", disk.index_bytes());
  json->Count("manifest_bytes", disk.manifest_bytes());
  json->Count("bytes_in", disk.bytes_in());
  json->Count("bytes_out", disk.bytes_out());
  json->Count("io_errors", disk.io_errors());
  json->Count("written_bytes", disk.written_bytes());
  json->Count("reappended_bytes", disk.reappended_bytes());
  json->Ratio("write_amplification", disk.write_amplification());
  json->Count("budget_bytes_per_day", disk.budget_bytes_per_day());
  json->Count("budget_left_bytes", disk.budget_left_bytes());
}

}  // namespace

std::string DiskInfoTable(const AgentAnswers& answers) { return AgentSections(answers, DisksOf); }

std::string DiskInfoJson(const AgentAnswers& answers) {
  return StatusesJson(answers, [](const v1::AgentStatusResponse& status, JsonWriter* json) {
    json->OpenArray("disks");
    for (const DiskReport& disk : status.disks()) {
      json->OpenElement();
      WriteDisk(disk, json);
      json->Close();
    }
    json->Close();
  });
}

Outcome RunDiskInfo(const Arguments& arguments) {
  return AgentsOutcome(arguments, AskAgents(arguments), DiskInfoTable, DiskInfoJson);
}

}  // namespace kvtier::cli
