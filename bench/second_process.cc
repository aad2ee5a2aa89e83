#include "bench/second_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/command_output.h"
#include "bench/gpu_rig.h"
#include "core/check.h"
#include "core/clock.h"
#include "tests/testing/descriptor_pipe.h"
#include "tier_gpu/device/open_device.h"

extern char** environ;  // NOLINT: what the child inherits.

namespace kvtier::bench {
namespace {

constexpr uint64_t kOwned = 256 << 10;  // Written once; behind it as much, again and again.
constexpr size_t kCopied = 0;           // The owner's word: how often.

// Of another process, also to open its device.
constexpr uint64_t kPatienceSeconds = 10;
constexpr uint64_t kTurnsOfALook = 256;  // Not at each: what is measured takes less than a call.

bool HasEnded(pid_t child) {
  siginfo_t ended{};
  KVT_CHECK(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
  return ended.si_pid == child;
}

[[noreturn]] void GiveUp(const char* why, const SignalWord& word, uint64_t value) {
  std::fprintf(stderr, "gpu_bench: %s: the word is %lu, awaited is %lu\n", why, word.load(), value);
  std::abort();
}

std::byte PatternAt(uint64_t i) { return static_cast<std::byte>(i * 131 >> 3); }

}  // namespace

int Inherited(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD, 100);
  KVT_CHECK(copy >= 0);
  return copy;
}

pid_t StartChild(const std::string& device, const std::string& child) {
  constexpr char kSelf[] = "/proc/self/exe";
  std::vector<std::string> words = {kSelf, "--device=" + device, "--child=" + child};
  const std::vector<char*> arguments = ArgumentsOf(&words);
  pid_t started = 0;
  KVT_CHECK(posix_spawn(&started, kSelf, nullptr, nullptr, arguments.data(), environ) == 0);
  return started;
}

void DieWithParent() { KVT_CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); }

void KillChild(pid_t child) {
  KVT_CHECK(kill(child, SIGKILL) == 0);
  int status = 0;
  KVT_CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
            WTERMSIG(status) == SIGKILL);
}

void Turn(Device* device) {
  std::array<Completion, kLanes * kMaxLaneDepth> ended;
  const size_t count = device->Poll(ended);
  for (size_t i = 0; i < count; ++i) KVT_CHECK(ended[i].status.ok());
}

void AwaitWord(Device* device, const SignalWord& word, uint64_t value, pid_t other) {
  const uint64_t deadline = SharedNow() + kPatienceSeconds * 1'000'000'000;
  for (uint64_t turns = 1; !device->Reached(word, value); ++turns) {
    Turn(device);
    if (turns % kTurnsOfALook != 0) continue;
    if (other != 0 && HasEnded(other)) GiveUp("the other process has ended", word, value);
    if (SharedNow() > deadline) GiveUp("no answer for 10 s", word, value);
  }
}

void CopyNow(Device* device, DeviceRegion* region, CopyDirection direction,
             const CopySegment& segment) {
  const CopyBatch batch = {
      .direction = direction, .region = region, .segments = std::span(&segment, 1)};
  KVT_CHECK(device->Submit(batch).ok());
  KVT_CHECK(device->Drain(absl::Seconds(10)).ok());
  Turn(device);
}

uint64_t SharedNow() {
  timespec now{};
  KVT_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

int RunOwner(const std::string& device_name, int socket) {
  const MonotonicClock clock;
  auto device = OpenDevice(device_name, &clock);
  KVT_CHECK(device.ok());
  auto region = (*device)->CreateRegion({.handle_bytes = kRegionGranularity}, 1);
  const auto page = SignalPage::Create();
  KVT_CHECK(region.ok() && page.ok() && (*device)->Pin((*page)->bytes()).ok());
  const HostBytes host = MakeHostBytes(kOwned);
  for (uint64_t i = 0; i < kOwned; ++i) host[i] = PatternAt(i);
  KVT_CHECK((*device)->Pin({host.get(), kOwned}).ok());
  constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
  CopyNow(device->get(), region->get(), kIn, {0, host.get(), kOwned});
  testing::SendShapeAndDescriptors(socket, (*region)->shape(),
                                   {(*region)->descriptor(0), (*page)->descriptor()});
  for (uint64_t times = 1;; ++times) {
    CopyNow(device->get(), region->get(), kIn, {kOwned, host.get(), kOwned});
    (*device)->Raise((*page)->word(kCopied), times);
  }
}

double MeasureOwnersDeath(Device* device, const std::string& device_name) {
  const std::array<int, 2> ends = testing::SocketPair();
  const int inherited = Inherited(ends[1]);
  const pid_t owner = StartChild(device_name, absl::StrCat("owner,", inherited));
  close(inherited);
  close(ends[1]);
  const timeval patience = {.tv_sec = kPatienceSeconds};
  KVT_CHECK(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
  const auto [shape, descriptors] = testing::ReceiveShapeAndDescriptors(ends[0]);
  if (descriptors.size() != 2) {
    std::fprintf(stderr, "gpu_bench: the owner has ended, or handed nothing over for 10 s\n");
    std::abort();
  }
  auto region = device->ImportRegion(shape, std::span(descriptors).first(1));
  const auto page = SignalPage::Import(descriptors[1]);
  KVT_CHECK(region.ok() && page.ok());
  const HostBytes host = MakeHostBytes(kOwned);
  KVT_CHECK(device->Pin({host.get(), kOwned}).ok());
  // It is at work when it dies.
  AwaitWord(device, *(*page)->word(kCopied), 3, owner);
  const uint64_t killed = SharedNow();
  KillChild(owner);
  for (const uint64_t offset : {uint64_t{0}, kOwned}) {
    std::memset(host.get(), 0xa5, kOwned);
    CopyNow(device, region->get(), CopyDirection::kDeviceToHost, {offset, host.get(), kOwned});
    for (uint64_t i = 0; i < kOwned; ++i) KVT_CHECK(host[i] == PatternAt(i));
  }
  // And it is ours to write.
  std::memset(host.get(), 0x5a, kOwned);
  CopyNow(device, region->get(), CopyDirection::kHostToDevice, {0, host.get(), kOwned});
  std::memset(host.get(), 0xa5, kOwned);
  CopyNow(device, region->get(), CopyDirection::kDeviceToHost, {0, host.get(), kOwned});
  KVT_CHECK(std::count(host.get(), host.get() + kOwned, std::byte{0x5a}) == kOwned);
  const double took = static_cast<double>(SharedNow() - killed) / 1e9;
  KVT_CHECK(device->Unpin({host.get(), kOwned}).ok());
  for (const int descriptor : descriptors) close(descriptor);
  close(ends[0]);
  return took;
}

}  // namespace kvtier::bench
