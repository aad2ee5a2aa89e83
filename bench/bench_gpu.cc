// bench: gpu - copies, codecs and races between host and GPU, beside what others do
//
// On a GPU, or on the emulated device, where it shows that all of it works and moves right
// bytes and says nothing about a link. Every cell is proved with random bytes before it is
// timed. The binary is gpu_bench: it needs nothing but a driver and runs alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"

ABSL_FLAG(std::string, device, "auto", "auto (a GPU if there is one), cuda:N or emulated.");
ABSL_FLAG(uint64_t, mebibytes, 0,
          "Of host memory, twice, at least 4; 0: 2048, or 64 where it is emulated.");
ABSL_FLAG(
    std::vector<std::string>, sections, {},
    "Only these of link, codecs, interference, calibration, blocks, sweep, processes and races.");
ABSL_FLAG(double, race_seconds, 0, "Of the race stress; 0: 60, or 2 where it is emulated.");
ABSL_FLAG(std::string, race_without, "",
          "store or load: the edge that is left out all the time, to see that this fails.");
ABSL_FLAG(std::string, child, "", "What the second process is told by the first.");

namespace kvtier::bench {
namespace {

constexpr std::array<const char*, 8> kSections = {"link",   "codecs", "interference", "calibration",
                                                  "blocks", "sweep",  "processes",    "races"};

// Two blocks, or 1,024 segments of 4 KiB.
constexpr uint64_t kLeastMebibytes = 4;

// The flags that are checked; errors: kInvalidArgument, naming the flag and the value.
absl::StatusOr<RaceEdges> CheckFlags() {
  for (const std::string& section : absl::GetFlag(FLAGS_sections)) {
    if (std::ranges::find(kSections, section) == kSections.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--sections: there is no \"", section, "\""));
    }
  }
  const uint64_t mebibytes = absl::GetFlag(FLAGS_mebibytes);
  if (mebibytes > 0 && mebibytes < kLeastMebibytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mebibytes is at least ", kLeastMebibytes, ", not ", mebibytes));
  }
  const std::string without = absl::GetFlag(FLAGS_race_without);
  if (!without.empty() && without != "store" && without != "load") {
    return absl::InvalidArgumentError(
        absl::StrCat("--race_without is store or load, not \"", without, "\""));
  }
  return RaceEdges{.before_store = without != "store", .before_load = without != "load"};
}

bool Asked(const std::string& section) {
  const std::vector<std::string> asked = absl::GetFlag(FLAGS_sections);
  return asked.empty() || std::ranges::find(asked, section) != asked.end();
}

// Errors: no device of that name. With "auto", `device` becomes what was opened.
absl::StatusOr<std::unique_ptr<GpuRig>> OpenRig(std::string* device) {
  const auto open = [&] {
    const uint64_t asked = absl::GetFlag(FLAGS_mebibytes);
    const uint64_t mebibytes = asked > 0 ? asked : (*device == "emulated" ? 64 : 2048);
    return GpuRig::Open(*device, mebibytes << 20);
  };
  if (*device != "auto") return open();
  *device = "cuda:0";
  auto rig = open();
  if (rig.ok()) return rig;
  std::printf("no GPU (%s): the device is emulated\n", std::string(rig.status().message()).c_str());
  *device = "emulated";
  return open();
}

// The figures of a section, as soon as it has ended: a run that is cut short keeps them.
void PrintAll(GpuFigures* figures) {
  for (const GpuFigure& figure : *figures) {
    PrintFigure(figure.name, figure.value, figure.unit, figure.ratio, figure.reference);
  }
  figures->clear();
}

// What went wrong in the race stress.
uint64_t Measure(GpuRig* rig, const std::string& device, RaceEdges edges) {
  GpuFigures figures;
  const bool copies = Asked("blocks") || Asked("sweep");
  LinkCeilings ceilings;
  if (Asked("link") || Asked("interference") || copies) {
    ceilings = MeasureCeilings(rig, &figures);
    MeasureSubmitCosts(rig);
    PrintAll(&figures);
  }
  if (Asked("codecs")) MeasureCodecs(rig, &figures);
  PrintAll(&figures);
  if (Asked("interference")) MeasureInterference(rig, ceilings, &figures);
  PrintAll(&figures);
  CalibrationTable table(LinkModel::Pcie5());
  if (Asked("calibration") || copies) table = MeasureCalibration(rig, &figures);
  PrintAll(&figures);
  NaiveSpeeds naive;
  if (copies) naive = MeasureNaive(rig);
  if (Asked("blocks")) MeasureBlocks(rig, table, ceilings, naive, &figures);
  PrintAll(&figures);
  if (Asked("sweep")) MeasureSweep(rig, table, ceilings, naive, &figures);
  PrintAll(&figures);
  // Behind all that one process measures: it kills others, which may be stuck.
  if (Asked("processes")) MeasureProcesses(rig, device, &figures);
  PrintAll(&figures);
  if (!Asked("races")) return 0;
  const double asked = absl::GetFlag(FLAGS_race_seconds);
  const double seconds = asked > 0 ? asked : (rig->emulated() ? 2 : 60);
  const uint64_t wrong = MeasureRaces(rig, edges, absl::Seconds(seconds), &figures);
  PrintAll(&figures);
  return wrong;
}

int Main() {
  // Who reads it through a pipe sees each line as it is measured.
  (void)std::setvbuf(stdout, nullptr, _IOLBF, 0);  // Ignored: it would only be late.
  const absl::StatusOr<RaceEdges> edges = CheckFlags();
  if (!edges.ok()) {
    std::fprintf(stderr, "gpu_bench: %s\n", std::string(edges.status().message()).c_str());
    return 2;
  }
  std::string device = absl::GetFlag(FLAGS_device);
  const auto rig = OpenRig(&device);
  if (!rig.ok()) {
    std::fprintf(stderr, "gpu_bench: %s\n", rig.status().ToString().c_str());
    return 1;
  }
  std::printf("device: %s\n", (*rig)->device().name().c_str());
  const uint64_t wrong = Measure(rig->get(), device, *edges);
  // The one answer that must be the same on every machine.
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Copies between host memory and a GPU.");
  absl::ParseCommandLine(argc, argv);
  const std::string child = absl::GetFlag(FLAGS_child);
  if (child.empty()) return kvtier::bench::Main();
  return kvtier::bench::RunChild(absl::GetFlag(FLAGS_device), child);
}
