// Two processes on one device's memory: signals there and back, and death.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "core/check.h"
#include "core/clock.h"
#include "tier_gpu/device/open_device.h"

extern char** environ;  // NOLINT: what the child inherits.

namespace kvtier::bench {
namespace {

constexpr uint64_t kPings = 2000;
constexpr size_t kThere = 0;  // The parent's word.
constexpr size_t kBack = 1;   // The child's.
constexpr uint64_t kShared = 64 << 10;

void AwaitWord(Device* device, const SignalWord& word, uint64_t value) {
  while (!device->Reached(word, value)) device->Poll({});
}

// A duplicate that a program started by us inherits.
int Inherited(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD, 100);
  KVT_CHECK(copy >= 0);
  return copy;
}

pid_t StartChild(const std::string& device, const std::string& descriptors) {
  constexpr char kSelf[] = "/proc/self/exe";
  const std::array<std::string, 3> words = {kSelf, "--device=" + device, "--child=" + descriptors};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  KVT_CHECK(posix_spawn(&child, kSelf, nullptr, nullptr, arguments.data(), environ) == 0);
  return child;
}

}  // namespace

int RunChild(const std::string& device_name, const std::string& descriptors) {
  std::vector<uint64_t> numbers;
  for (const auto& text : absl::StrSplit(descriptors, ',')) {
    numbers.push_back(0);
    KVT_CHECK(absl::SimpleAtoi(text, &numbers.back()));
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
  std::vector<std::byte> host(kShared);
  KVT_CHECK((*device)->Pin(host).ok());
  // What the parent wrote, plus one, a block further on.
  SignalWord* const back = (*page)->word(kBack);
  const auto copy = [&](CopyDirection direction, uint64_t offset) {
    const CopySegment segment = {offset, host.data(), kShared};
    KVT_CHECK((*device)
                  ->Submit({.direction = direction,
                            .region = region->get(),
                            .segments = std::span(&segment, 1)})
                  .ok());
    KVT_CHECK((*device)->Drain(absl::Seconds(10)).ok());
    std::array<Completion, 4> ended;
    while ((*device)->Poll(ended) > 0) {
    }
  };
  AwaitWord(device->get(), *(*page)->word(kThere), 1);
  copy(CopyDirection::kDeviceToHost, 0);
  for (std::byte& byte : host) byte = static_cast<std::byte>(static_cast<int>(byte) + 1);
  copy(CopyDirection::kHostToDevice, kShared);
  (*device)->Raise(back, 1);
  for (uint64_t ping = 2; ping < kPings + 2; ++ping) {
    AwaitWord(device->get(), *(*page)->word(kThere), ping);
    (*device)->Raise(back, ping);
  }
  pause();  // To be killed.
  return 0;
}

void MeasureProcesses(GpuRig* rig, const std::string& device, GpuFigures* figures) {
  const auto page = *SignalPage::Create();
  KVT_CHECK(rig->device().Pin(page->bytes()).ok());
  const int handle = Inherited(rig->region()->descriptor(0));
  const int words = Inherited(page->descriptor());
  const pid_t child = StartChild(
      device, absl::StrCat(handle, ",", words, ",", rig->region()->shape().handle_bytes));
  close(handle);
  close(words);

  const CopySegment there = {0, rig->source(), kShared};
  const RigBatch send = {CopyPath::kBatch, std::span(&there, 1)};
  rig->Run(CopyDirection::kHostToDevice, std::span(&send, 1));
  const absl::Time shared = absl::Now();
  rig->device().Raise(page->word(kThere), 1);
  AwaitWord(&rig->device(), *page->word(kBack), 1);
  const double first = absl::ToDoubleSeconds(absl::Now() - shared);
  std::vector<double> round_trips;
  for (uint64_t ping = 2; ping < kPings + 2; ++ping) {
    const absl::Time start = absl::Now();
    rig->device().Raise(page->word(kThere), ping);
    AwaitWord(&rig->device(), *page->word(kBack), ping);
    round_trips.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  KVT_CHECK(kill(child, SIGKILL) == 0);
  int status = 0;
  KVT_CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);

  // What the dead process wrote is still there, and the device goes on.
  const CopySegment back = {kShared, rig->back(), kShared};
  const RigBatch look = {CopyPath::kBatch, std::span(&back, 1)};
  rig->Run(CopyDirection::kDeviceToHost, std::span(&look, 1));
  for (uint64_t i = 0; i < kShared; ++i) {
    KVT_CHECK(static_cast<uint8_t>(rig->back()[i]) ==
              static_cast<uint8_t>(static_cast<uint8_t>(rig->source()[i]) + 1));
  }
  KVT_CHECK(rig->device().Unpin(page->bytes()).ok());
  const CopySegment small = {0, rig->source(), 4096};
  const RigBatch copy = {CopyPath::kBatch, std::span(&small, 1)};
  std::vector<double> copies;
  for (uint64_t i = 0; i < kPings; ++i) {
    copies.push_back(rig->Run(CopyDirection::kHostToDevice, std::span(&copy, 1)));
  }
  const double round_trip = Median(round_trips);
  std::printf(
      "\ntwo processes: opened, mapped, read, wrote and answered in %.1f ms; a signal there "
      "and back %.2f us; what the killed one wrote is there\n",
      first * 1e3, round_trip * 1e6);
  figures->push_back({"gpu.signal_round_trip", round_trip * 1e6, "us", round_trip / Median(copies),
                      "a copy of 4 KiB"});
}

}  // namespace kvtier::bench
