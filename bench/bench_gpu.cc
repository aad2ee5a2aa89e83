// bench: gpu - copies, codecs and races between host and GPU, beside what others do
//
// On a GPU, or on the emulated device, where it shows that all of it works and moves right
// bytes and says nothing about a link. Every cell is proved with random bytes before it is
// timed. The binary is gpu_bench: it needs nothing but a driver and runs alone.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"

ABSL_FLAG(std::string, device, "auto", "auto (a GPU if there is one), cuda:N or emulated.");
ABSL_FLAG(uint64_t, mebibytes, 0, "Of host memory, twice; 0: 2048, or 64 where it is emulated.");
ABSL_FLAG(double, race_seconds, 0, "Of the race stress; 0: 60, or 2 where it is emulated.");
ABSL_FLAG(std::string, child, "", "What the second process is told by the first.");

int main(int argc, char** argv) {
  using namespace kvtier::bench;
  absl::SetProgramUsageMessage("Copies between host memory and a GPU.");
  absl::ParseCommandLine(argc, argv);
  std::string device = absl::GetFlag(FLAGS_device);
  if (!absl::GetFlag(FLAGS_child).empty()) return RunChild(device, absl::GetFlag(FLAGS_child));
  const auto open = [&] {
    const uint64_t asked = absl::GetFlag(FLAGS_mebibytes);
    const uint64_t mebibytes = asked > 0 ? asked : (device == "emulated" ? 64 : 2048);
    return GpuRig::Open(device, mebibytes << 20);
  };
  const bool any = device == "auto";
  if (any) device = "cuda:0";
  auto rig = open();
  if (any && !rig.ok()) {
    std::printf("no GPU (%s): the device is emulated\n",
                std::string(rig.status().message()).c_str());
    device = "emulated";
    rig = open();
  }
  if (!rig.ok()) {
    std::fprintf(stderr, "gpu_bench: %s\n", rig.status().ToString().c_str());
    return 1;
  }
  std::printf("device: %s\n", (*rig)->device().name().c_str());
  GpuFigures figures;
  const LinkCeilings ceilings = MeasureCeilings(rig->get(), &figures);
  MeasureSubmitCosts(rig->get());
  MeasureProcesses(rig->get(), device, &figures);
  MeasureCodecs(rig->get(), &figures);
  MeasureInterference(rig->get(), &figures);
  const NaiveSpeeds naive = MeasureNaive(rig->get());
  MeasureBlocks(rig->get(), ceilings, naive, &figures);
  MeasureSweep(rig->get(), ceilings, naive, &figures);
  const double asked = absl::GetFlag(FLAGS_race_seconds);
  const double races = asked > 0 ? asked : ((*rig)->emulated() ? 2 : 60);
  const uint64_t wrong = MeasureRaces(rig->get(), absl::Seconds(races), &figures);
  std::printf("\n");
  for (const GpuFigure& figure : figures) {
    PrintFigure(figure.name, figure.value, figure.unit, figure.ratio, figure.reference);
  }
  // The one thing here that no machine may answer otherwise.
  return wrong == 0 ? 0 : 1;
}
