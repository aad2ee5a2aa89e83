#include "cli/tiers.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/gpu_resize.h"
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

// Returns the order that is followed: "learnt", "learnt (2 of 3 follow lru)", "lru".
std::string EvictionText(const v1::EvictionReport& eviction) {
  if (eviction.policy().empty()) return "-";
  if (eviction.following_lru() == 0) return eviction.policy();
  if (eviction.following_lru() == eviction.orders()) {
    return absl::StrCat(eviction.policy(), ", lru now");
  }
  return absl::StrCat(eviction.policy(), ", lru in ", eviction.following_lru(), " of ",
                      eviction.orders());
}

std::string HitShareText(const Report& tier, double share) {
  return tier.eviction().policy() == "learnt" ? absl::StrFormat("%.1f %%", 100 * share) : "-";
}

const Row kRows[] = {
    {"capacity", [](const Report& t) { return BytesText(t.capacity_bytes()); }},
    {"used", [](const Report& t) { return BytesText(t.used_bytes()); }},
    {"full", [](const Report& t) { return ShareText(t.used_bytes(), t.capacity_bytes()); }},
    {"pinned", [](const Report& t) { return BytesText(t.pinned_bytes()); }},
    {"late", [](const Report& t) { return BytesText(t.late_bytes()); }},
    {"blocks", [](const Report& t) { return CountText(t.blocks()); }},
    {"hits", [](const Report& t) { return CountText(t.hits()); }},
    {"misses", [](const Report& t) { return CountText(t.misses()); }},
    {"hit rate", [](const Report& t) { return ShareText(t.hits(), t.hits() + t.misses()); }},
    {"inserts", [](const Report& t) { return CountText(t.inserts()); }},
    {"evictions", [](const Report& t) { return CountText(t.evictions()); }},
    {"declined", [](const Report& t) { return CountText(t.declined()); }},
    {"eviction", [](const Report& t) { return EvictionText(t.eviction()); }},
    {"worth no room", [](const Report& t) { return CountText(t.eviction().refused_blocks()); }},
    {"learnt finds",
     [](const Report& t) { return HitShareText(t, t.eviction().learnt_hit_share()); }},
    {"lru would find",
     [](const Report& t) { return HitShareText(t, t.eviction().lru_hit_share()); }},
    {"unwritten", [](const Report& t) { return CountText(t.unwritten_blocks()); }},
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

// Returns what the link carried in `seconds`, as a share of what it would have carried at the best
// rate seen; 0: it carried nothing yet. Over the uptime that is its utilisation; over the time in
// which copies ran, how near the copies come to the best rate.
double PartOfBest(const v1::GpuLinkReport& link, double seconds) {
  if (seconds <= 0 || link.best_bytes_per_second() <= 0) return 0;
  return static_cast<double>(link.bytes()) / seconds / link.best_bytes_per_second();
}

// Bytes of used slots that hold no KV (padding, and granted slots without a token), of all bytes of
// used slots.
struct Fragments {
  uint64_t bytes = 0;
  uint64_t of = 0;
};
Fragments FragmentsOf(const v1::GpuReport& gpu) {
  return {.bytes = gpu.padding_bytes() + gpu.granted_unused_bytes(),
          .of = (gpu.slots() - gpu.free_slots()) * gpu.slot_bytes()};
}

std::string GpuOf(const v1::GpuReport& gpu, double uptime_seconds) {
  Table table({{"GPU"}, {gpu.device(), Align::kRight}, {gpu.uuid()}}, /*indent=*/2);
  table.AddRow({"tenant", gpu.tenant(), ""});
  table.AddRow({"workers", CountText(gpu.workers()), ""});
  table.AddRow({"memory", BytesText(gpu.size().bytes()), GpuSizeText(gpu.size())});
  table.AddRow({"target", BytesText(gpu.size().target_bytes()), ""});
  table.AddRow({"most", BytesText(gpu.size().max_bytes()), ""});
  table.AddRow({"slots", CountText(gpu.slots()), ""});
  table.AddRow({"free", CountText(gpu.free_slots()), ShareText(gpu.free_slots(), gpu.slots())});
  table.AddRow(
      {"draining", CountText(gpu.draining_slots()), ShareText(gpu.draining_slots(), gpu.slots())});
  table.AddRow(
      {"granted", CountText(gpu.granted_slots()), ShareText(gpu.granted_slots(), gpu.slots())});
  const Fragments fragments = FragmentsOf(gpu);
  table.AddRow(
      {"fragmented", BytesText(fragments.bytes), ShareText(fragments.bytes, fragments.of)});
  table.AddRow({"block padding", BytesText(gpu.padding_bytes()), ""});
  table.AddRow({"granted, no token", BytesText(gpu.granted_unused_bytes()),
                ShareText(gpu.granted_unused_bytes(), gpu.granted_slots() * gpu.slot_bytes())});
  table.AddRow({"evicted ahead", CountText(gpu.evicted_ahead()), ""});
  table.AddRow({"offloaded ahead", CountText(gpu.offloaded_blocks()), ""});
  table.AddRow({"offloads declined", CountText(gpu.offload_declined()), ""});
  Table links({{"COPIES"},
               {"ENDED", Align::kRight},
               {"FAILED", Align::kRight},
               {"IN FLIGHT", Align::kRight},
               {"BYTES", Align::kRight},
               {"BUSY", Align::kRight},
               {"BEST/S", Align::kRight},
               {"OF BEST", Align::kRight},
               {"UTILISED", Align::kRight},
               {"P50", Align::kRight},
               {"P99", Align::kRight}},
              /*indent=*/2);
  const auto add = [&links, uptime_seconds](const char* name, const v1::GpuLinkReport& link) {
    links.AddRow({name, CountText(link.copies()), CountText(link.failed()),
                  CountText(link.in_flight()), BytesText(link.bytes()),
                  SecondsText(link.busy_seconds()),
                  BytesText(static_cast<uint64_t>(link.best_bytes_per_second())),
                  absl::StrFormat("%.1f %%", 100 * PartOfBest(link, link.busy_seconds())),
                  absl::StrFormat("%.1f %%", 100 * PartOfBest(link, uptime_seconds)),
                  SecondsText(link.p50_seconds()), SecondsText(link.p99_seconds())});
  };
  add("onboard", gpu.onboard());
  add("offload", gpu.offload());
  return absl::StrCat("\n", table.ToString(), "\n", links.ToString());
}

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
  std::string text = table.ToString();
  for (const v1::GpuReport& gpu : status.gpus())
    absl::StrAppend(&text, GpuOf(gpu, status.uptime_seconds()));
  return text;
}

void WriteLink(const char* name, const v1::GpuLinkReport& link, double uptime_seconds,
               JsonWriter* json) {
  json->OpenObject(name);
  json->Count("copies", link.copies());
  json->Count("failed", link.failed());
  json->Count("bytes", link.bytes());
  json->Count("in_flight", link.in_flight());
  json->Seconds("busy_seconds", link.busy_seconds());
  json->Ratio("best_bytes_per_second", link.best_bytes_per_second());
  json->Ratio("busy_part_of_best", PartOfBest(link, link.busy_seconds()));
  json->Ratio("utilisation", PartOfBest(link, uptime_seconds));
  json->Seconds("p50_seconds", link.p50_seconds());
  json->Seconds("p99_seconds", link.p99_seconds());
  json->Close();
}

void WriteGpu(const v1::GpuReport& gpu, double uptime_seconds, JsonWriter* json) {
  json->Text("device", gpu.device());
  json->Text("uuid", gpu.uuid());
  json->Text("tenant", gpu.tenant());
  json->Count("slots", gpu.slots());
  json->Count("slot_bytes", gpu.slot_bytes());
  json->Count("free_slots", gpu.free_slots());
  json->Count("draining_slots", gpu.draining_slots());
  json->Count("workers", gpu.workers());
  json->Count("evicted_ahead", gpu.evicted_ahead());
  json->Count("offloaded_blocks", gpu.offloaded_blocks());
  json->Count("offload_declined", gpu.offload_declined());
  json->Count("padding_bytes", gpu.padding_bytes());
  json->Count("granted_slots", gpu.granted_slots());
  json->Count("granted_unused_bytes", gpu.granted_unused_bytes());
  const Fragments fragments = FragmentsOf(gpu);
  json->Ratio("fragmentation", fragments.of == 0 ? 0
                                                 : static_cast<double>(fragments.bytes) /
                                                       static_cast<double>(fragments.of));
  json->OpenObject("size");
  WriteGpuSize(gpu.size(), json);
  json->Close();
  WriteLink("onboard", gpu.onboard(), uptime_seconds, json);
  WriteLink("offload", gpu.offload(), uptime_seconds, json);
}

void WriteTier(const Report& tier, JsonWriter* json) {
  json->Text("tier", WireTierName(tier.tier()));
  json->Count("capacity_bytes", tier.capacity_bytes());
  json->Count("used_bytes", tier.used_bytes());
  json->Count("pinned_bytes", tier.pinned_bytes());
  json->Count("late_bytes", tier.late_bytes());
  json->Count("blocks", tier.blocks());
  json->Count("hits", tier.hits());
  json->Count("misses", tier.misses());
  json->Count("inserts", tier.inserts());
  json->Count("evictions", tier.evictions());
  json->Count("declined", tier.declined());
  json->Count("unwritten_blocks", tier.unwritten_blocks());
  json->Count("bytes_in", tier.bytes_in());
  json->Count("bytes_out", tier.bytes_out());
  json->Seconds("read_p50_seconds", tier.read_p50_seconds());
  json->Seconds("read_p99_seconds", tier.read_p99_seconds());
  json->Seconds("write_p50_seconds", tier.write_p50_seconds());
  json->Seconds("write_p99_seconds", tier.write_p99_seconds());
  json->Count("verified", tier.verified());
  json->Count("verify_failures", tier.verify_failures());
  json->Count("io_errors", tier.io_errors());
  json->OpenObject("eviction");
  json->Text("policy", tier.eviction().policy());
  json->Count("orders", tier.eviction().orders());
  json->Count("following_lru", tier.eviction().following_lru());
  json->Count("refused_blocks", tier.eviction().refused_blocks());
  json->Ratio("learnt_hit_share", tier.eviction().learnt_hit_share());
  json->Ratio("lru_hit_share", tier.eviction().lru_hit_share());
  json->Close();
}

}  // namespace

std::string WireTierName(v1::Tier tier) {
  const absl::StatusOr<Tier> known = convert::TierFrom(tier, "tier");
  return known.ok() ? TierName(*known) : absl::StrCat("tier ", static_cast<int>(tier));
}

std::string TiersTable(const AgentAnswers& answers) { return AgentSections(answers, TiersOf); }

void WriteTiers(const v1::AgentStatusResponse& status, JsonWriter* json) {
  json->OpenArray("tiers");
  for (const Report& tier : status.tiers()) {
    json->OpenElement();
    WriteTier(tier, json);
    json->Close();
  }
  json->Close();
  json->OpenArray("gpus");
  for (const v1::GpuReport& gpu : status.gpus()) {
    json->OpenElement();
    WriteGpu(gpu, status.uptime_seconds(), json);
    json->Close();
  }
  json->Close();
}

std::string TiersJson(const AgentAnswers& answers) { return StatusesJson(answers, WriteTiers); }

Outcome RunTiers(const Arguments& arguments) {
  return AgentsOutcome(arguments, AskAgents(arguments), TiersTable, TiersJson);
}

}  // namespace kvtier::cli
