// Two processes on one device's memory: signals there and back, and death of either.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "bench/second_process.h"
#include "core/check.h"
#include "core/clock.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier::bench {
namespace {

constexpr uint64_t kPings = 2000;
constexpr uint64_t kLanePings = 500;
constexpr uint64_t kShared = 64 << 10;

// Words of the page. Each counts from 1 up through the run.
constexpr size_t kThere = 0;  // The parent's, from the host.
constexpr size_t kBack = 1;   // The child's, from the host.
constexpr size_t kLane = 2;   // The parent's, from a lane.
constexpr size_t kGo = 3;     // The child's, which a lane of the parent awaits.
constexpr size_t kWent = 4;   // The parent's, from that lane behind it.
constexpr size_t kWhen = 5;   // When the child saw kLane, or raised kGo: nanoseconds.

// From a process that signals to one that sees it, medians in seconds.
struct Latencies {
  double round_trip = 0;  // Between the hosts, there and back.
  double lane_to_host = 0;
  double host_to_lane = 0;
};

Latencies MeasureSignals(Device* device, const SignalPage& page, pid_t child) {
  std::vector<double> round_trips;
  uint64_t ping = 2;
  for (uint64_t i = 0; i < kPings; ++i, ++ping) {
    const uint64_t start = SharedNow();
    device->Raise(page.word(kThere), ping);
    AwaitWord(device, *page.word(kBack), ping, child);
    round_trips.push_back(static_cast<double>(SharedNow() - start) / 1e9);
  }
  std::vector<double> lane_to_host;
  for (uint64_t i = 1; i <= kLanePings; ++i, ++ping) {
    const uint64_t start = SharedNow();
    KVT_CHECK(device->Signal(Lane::kOnboard, page.word(kLane), i).ok());
    AwaitWord(device, *page.word(kBack), ping, child);
    lane_to_host.push_back(static_cast<double>(page.word(kWhen)->load() - start) / 1e9);
  }
  std::vector<double> host_to_lane;
  for (uint64_t i = 1; i <= kLanePings; ++i, ++ping) {
    KVT_CHECK(device->Await(Lane::kOnboard, page.word(kGo), i).ok());
    KVT_CHECK(device->Signal(Lane::kOnboard, page.word(kWent), i).ok());
    device->Raise(page.word(kThere), ping);
    AwaitWord(device, *page.word(kWent), i, child);
    const uint64_t went = SharedNow();
    AwaitWord(device, *page.word(kBack), ping, child);
    host_to_lane.push_back(static_cast<double>(went - page.word(kWhen)->load()) / 1e9);
  }
  return {Median(round_trips), Median(lane_to_host), Median(host_to_lane)};
}

// The child's part of it.
void AnswerSignals(Device* device, const SignalPage& page) {
  uint64_t ping = 2;
  for (uint64_t i = 0; i < kPings; ++i, ++ping) {
    AwaitWord(device, *page.word(kThere), ping, 0);
    device->Raise(page.word(kBack), ping);
  }
  for (uint64_t i = 1; i <= kLanePings; ++i, ++ping) {
    AwaitWord(device, *page.word(kLane), i, 0);
    page.word(kWhen)->store(SharedNow());
    device->Raise(page.word(kBack), ping);
  }
  for (uint64_t i = 1; i <= kLanePings; ++i, ++ping) {
    AwaitWord(device, *page.word(kThere), ping, 0);
    page.word(kWhen)->store(SharedNow());
    device->Raise(page.word(kGo), i);
    device->Raise(page.word(kBack), ping);
  }
}

// A lane that awaits a word whose writer is dead goes on when the word is released;
// seconds from the release to its end.
double MeasureRelease(Device* device, const SignalPage& page) {
  KVT_CHECK(device->Await(Lane::kOnboard, page.word(kGo), kLanePings + 1).ok());
  KVT_CHECK(device->Signal(Lane::kOnboard, page.word(kWent), kLanePings + 1).ok());
  for (int i = 0; i < 1000; ++i) Turn(device);
  KVT_CHECK(!device->Reached(*page.word(kWent), kLanePings + 1));
  const uint64_t start = SharedNow();
  page.Release(kGo, 1);
  AwaitWord(device, *page.word(kWent), kLanePings + 1, 0);
  const double took = static_cast<double>(SharedNow() - start) / 1e9;
  KVT_CHECK(device->Drain(absl::Seconds(10)).ok());
  Turn(device);
  return took;
}

}  // namespace

int RunChild(const std::string& device_name, const std::string& child) {
  DieWithParent();
  absl::string_view text = child;
  int socket = 0;
  if (absl::ConsumePrefix(&text, "owner,")) {
    KVT_CHECK(absl::SimpleAtoi(text, &socket));
    return RunOwner(device_name, socket);
  }
  std::vector<uint64_t> numbers;
  for (const auto& number : absl::StrSplit(text, ',')) {
    numbers.push_back(0);
    KVT_CHECK(absl::SimpleAtoi(number, &numbers.back()));
  }
  KVT_CHECK(numbers.size() == 3);
  const MonotonicClock clock;
  auto device = OpenDevice(device_name, &clock);
  KVT_CHECK(device.ok());
  const std::array<int, 1> handles = {static_cast<int>(numbers[0])};
  auto region = (*device)->ImportRegion({.handle_bytes = numbers[2]}, handles);
  KVT_CHECK(region.ok());
  const auto page = SignalPage::Import(static_cast<int>(numbers[1]));
  KVT_CHECK(page.ok() && (*device)->Pin((*page)->bytes()).ok());
  const HostBytes host = MakeHostBytes(kShared);
  KVT_CHECK((*device)->Pin({host.get(), kShared}).ok());
  // What the parent wrote, plus one, a block further on.
  AwaitWord(device->get(), *(*page)->word(kThere), 1, 0);
  CopyNow(device->get(), region->get(), CopyDirection::kDeviceToHost, {0, host.get(), kShared});
  for (uint64_t i = 0; i < kShared; ++i) {
    host[i] = static_cast<std::byte>(static_cast<int>(host[i]) + 1);
  }
  CopyNow(device->get(), region->get(), CopyDirection::kHostToDevice,
          {kShared, host.get(), kShared});
  (*device)->Raise((*page)->word(kBack), 1);
  AnswerSignals(device->get(), **page);
  pause();  // To be killed.
  return 0;
}

void MeasureProcesses(GpuRig* rig, const std::string& device_name, GpuFigures* figures) {
  Device* const device = &rig->device();
  const auto page = *SignalPage::Create();
  KVT_CHECK(device->Pin(page->bytes()).ok());
  const int handle = Inherited(rig->region()->descriptor(0));
  const int words = Inherited(page->descriptor());
  const pid_t child = StartChild(
      device_name, absl::StrCat(handle, ",", words, ",", rig->region()->shape().handle_bytes));
  close(handle);
  close(words);

  CopyNow(device, rig->region(), CopyDirection::kHostToDevice, {0, rig->source(), kShared});
  const uint64_t start = SharedNow();
  device->Raise(page->word(kThere), 1);
  AwaitWord(device, *page->word(kBack), 1, child);
  const double first = static_cast<double>(SharedNow() - start) / 1e9;
  const Latencies latencies = MeasureSignals(device, *page, child);
  KillChild(child);

  // What the dead process wrote is still there, and the device goes on.
  CopyNow(device, rig->region(), CopyDirection::kDeviceToHost, {kShared, rig->back(), kShared});
  for (uint64_t i = 0; i < kShared; ++i) {
    KVT_CHECK(static_cast<uint8_t>(rig->back()[i]) ==
              static_cast<uint8_t>(static_cast<uint8_t>(rig->source()[i]) + 1));
  }
  const double release = MeasureRelease(device, *page);
  KVT_CHECK(device->Unpin(page->bytes()).ok());
  const double owner = MeasureOwnersDeath(device, device_name);
  const CopySegment small = {0, rig->source(), 4096};
  const RigBatch copy = {CopyPath::kBatch, std::span(&small, 1)};
  std::vector<double> copies(kPings);
  for (double& seconds : copies) {
    seconds = rig->Run(CopyDirection::kHostToDevice, std::span(&copy, 1));
  }
  const double one_copy = Median(copies);
  std::printf("\ntwo processes: opened, mapped, read, wrote and answered in %.1f ms\n",
              first * 1e3);
  std::printf("  a signal between hosts, there and back %8.2f us\n", latencies.round_trip * 1e6);
  std::printf("  by a lane, seen by the other process   %8.2f us\n", latencies.lane_to_host * 1e6);
  std::printf("  by the other process, and a lane goes on and says so %8.2f us\n",
              latencies.host_to_lane * 1e6);
  std::printf(
      "  kill -9 of the second process: what it wrote is there; a lane that awaited it "
      "went on %.2f us after the release\n",
      release * 1e6);
  std::printf("  kill -9 of the owner: all it wrote is there and ours to write, in %.1f ms\n",
              owner * 1e3);
  const auto add = [&](const char* name, double seconds) {
    figures->push_back({name, seconds * 1e6, "us", seconds / one_copy, "a copy of 4 KiB"});
  };
  add("gpu.signal_round_trip", latencies.round_trip);
  add("gpu.signal_from_lane", latencies.lane_to_host);
  add("gpu.signal_to_lane", latencies.host_to_lane);
  add("gpu.release_of_dead", release);
  add("gpu.takeover_from_dead", owner);
}

}  // namespace kvtier::bench
