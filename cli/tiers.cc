#include "cli/tiers.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/tier.h"
#include "proto/convert.h"

namespace kvtier::cli {
namespace {

using Report = v1::TierReport;

struct Row {
  const char* title;
  std::string (*text)(const Report&);
};

const Row kRows[] = {
    {"capacity", [](const Report& t) { return BytesText(t.capacity_bytes()); }},
    {"used", [](const Report& t) { return BytesText(t.used_bytes()); }},
    {"full", [](const Report& t) { return ShareText(t.used_bytes(), t.capacity_bytes()); }},
    {"pinned", [](const Report& t) { return BytesText(t.pinned_bytes()); }},
    {"blocks", [](const Report& t) { return CountText(t.blocks()); }},
    {"hits", [](const Report& t) { return CountText(t.hits()); }},
    {"misses", [](const Report& t) { return CountText(t.misses()); }},
    {"hit rate", [](const Report& t) { return ShareText(t.hits(), t.hits() + t.misses()); }},
    {"inserts", [](const Report& t) { return CountText(t.inserts()); }},
    {"evictions", [](const Report& t) { return CountText(t.evictions()); }},
    {"declined", [](const Report& t) { return CountText(t.declined()); }},
    {"bytes in", [](const Report& t) { return BytesText(t.bytes_in()); }},
    {"bytes out", [](const Report& t) { return BytesText(t.bytes_out()); }},
    {"read p50", [](const Report& t) { return SecondsText(t.read_p50_seconds()); }},
    {"read p99", [](const Report& t) { return SecondsText(t.read_p99_seconds()); }},
    {"write p50", [](const Report& t) { return SecondsText(t.write_p50_seconds()); }},
    {"write p99", [](const Report& t) { return SecondsText(t.write_p99_seconds()); }},
    {"verified", [](const Report& t) { return CountText(t.verified()); }},
    {"verify failures", [](const Report& t) { return CountText(t.verify_failures()); }},
    {"I/O errors", [](const Report& t) { return CountText(t.io_errors()); }},
};

std::string TiersOf(const v1::AgentStatusResponse& status) {
  std::vector<Table::Column> columns = {{"TIER"}};
  for (const Report& tier : status.tiers()) {
    columns.push_back({WireTierName(tier.tier()), Align::kRight});
  }
  Table table(std::move(columns), /*indent=*/2);
  for (const Row& row : kRows) {
    std::vector<std::string> cells = {row.title};
    for (const Report& tier : status.tiers()) cells.push_back(row.text(tier));
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

}  // namespace

std::string WireTierName(v1::Tier tier) {
  const absl::StatusOr<Tier> known = convert::TierFrom(tier, "tier");
  return known.ok() ? TierName(*known) : absl::StrCat("tier ", static_cast<int>(tier));
}

void WriteTier(const Report& tier, JsonWriter* json) {
  json->Text("tier", WireTierName(tier.tier()));
  json->Count("capacity_bytes", tier.capacity_bytes());
  json->Count("used_bytes", tier.used_bytes());
  json->Count("pinned_bytes", tier.pinned_bytes());
  json->Count("blocks", tier.blocks());
  json->Count("hits", tier.hits());
  json->Count("misses", tier.misses());
  json->Count("inserts", tier.inserts());
  json->Count("evictions", tier.evictions());
  json->Count("declined", tier.declined());
  json->Count("bytes_in", tier.bytes_in());
  json->Count("bytes_out", tier.bytes_out());
  json->Seconds("read_p50_seconds", tier.read_p50_seconds());
  json->Seconds("read_p99_seconds", tier.read_p99_seconds());
  json->Seconds("write_p50_seconds", tier.write_p50_seconds());
  json->Seconds("write_p99_seconds", tier.write_p99_seconds());
  json->Count("verified", tier.verified());
  json->Count("verify_failures", tier.verify_failures());
  json->Count("io_errors", tier.io_errors());
}

std::string TiersTable(const AgentAnswers& answers) { return AgentSections(answers, TiersOf); }

std::string TiersJson(const AgentAnswers& answers) {
  return AgentsJson(answers, [](const v1::AgentStatusResponse& status, JsonWriter* json) {
    json->OpenArray("tiers");
    for (const Report& tier : status.tiers()) {
      json->OpenElement();
      WriteTier(tier, json);
      json->Close();
    }
    json->Close();
  });
}

Outcome RunTiers(const Arguments& arguments) {
  return AgentsOutcome(arguments, AskAgents(arguments), TiersTable, TiersJson);
}

}  // namespace kvtier::cli
