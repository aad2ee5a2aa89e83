#include "cli/doctor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/json.h"
#include "cli/machine_findings.h"
#include "cli/socket_findings.h"
#include "cli/space_findings.h"
#include "cli/table.h"

namespace kvtier::cli {
namespace {

const char* HealthWord(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    case Health::kFail:
      return "fail";
  }
  return "?";
}

size_t CountOf(const Findings& findings, Health health) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [health](const Finding& finding) { return finding.health == health; }));
}

// Adds a row for each space: the option by which other verbs take it, and its ranks if it is one of
// several shards.
void AddSpaceRows(const std::vector<SpaceOfFinding>& spaces, Table* table) {
  for (const SpaceOfFinding& space : spaces) {
    std::string text = absl::StrCat("--space-digest ", space.digest);
    if (spaces.size() > 1) {
      absl::StrAppend(&text, "  tensor rank ", space.tensor_rank, ", pipeline rank ",
                      space.pipeline_rank);
    }
    table->AddRow({"", "", std::move(text)});
  }
}

void WriteSpaces(const std::vector<SpaceOfFinding>& spaces, JsonWriter* json) {
  json->OpenArray("spaces");
  for (const SpaceOfFinding& space : spaces) {
    json->OpenElement();
    json->Text("space_digest", space.digest);
    json->Count("tensor_rank", space.tensor_rank);
    json->Count("pipeline_rank", space.pipeline_rank);
    json->Close();
  }
  json->Close();
}

}  // namespace

Findings DoctorFindings(const NodeFacts& facts) {
  Findings findings = SocketFindings(facts);
  for (Finding& finding : MachineFindings(facts)) findings.push_back(std::move(finding));
  if (facts.sharing.ok() && facts.status.ok()) {
    for (Finding& finding : SpaceFindings(*facts.sharing, *facts.status)) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

// Returns the table. Each remedy, which is a sentence, and each digest, which is copied, stands on
// a line of its own.
std::string DoctorTable(const Findings& findings) {
  Table table({{"RESULT"}, {"CHECK"}, {"FINDING"}});
  for (const Finding& finding : findings) {
    table.AddRow({HealthWord(finding.health), finding.check, finding.detail});
    AddSpaceRows(finding.spaces, &table);
    if (!finding.remedy.empty()) table.AddRow({"", "", absl::StrCat("-> ", finding.remedy)});
  }
  return absl::StrCat(table.ToString(), "\n", CountOf(findings, Health::kFail), " fail, ",
                      CountOf(findings, Health::kWarn), " warn, ", CountOf(findings, Health::kOk),
                      " ok\n");
}

std::string DoctorJson(const Findings& findings) {
  JsonWriter json;
  json.Flag("healthy", CountOf(findings, Health::kFail) == 0);
  json.OpenArray("findings");
  for (const Finding& finding : findings) {
    json.OpenElement();
    json.Text("check", finding.check);
    json.Text("result", HealthWord(finding.health));
    json.Text("what", finding.detail);
    json.Text("todo", finding.remedy);
    if (!finding.spaces.empty()) WriteSpaces(finding.spaces, &json);
    json.Close();
  }
  json.Close();
  return json.Finish();
}

Outcome RunDoctor(const Arguments& arguments) {
  const Findings findings = DoctorFindings(GatherNodeFacts(arguments));
  return {.code = CountOf(findings, Health::kFail) > 0 ? ExitCode::kFailed : ExitCode::kOk,
          .out = arguments.format == Format::kJson ? DoctorJson(findings) : DoctorTable(findings)};
}

}  // namespace kvtier::cli
