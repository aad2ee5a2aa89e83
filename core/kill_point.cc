// Compiled only into the tests that kill (tests/crash/CMakeLists.txt).
#include "core/kill_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/check.h"

namespace kvtier {
namespace {

// Relaxed, all of them: the n-th hit is whichever thread's increment was the n-th.
std::array<std::atomic<uint64_t>, kKillPoints.size()> hits;
std::atomic<size_t> armed = kKillPoints.size();
std::atomic<uint64_t> fatal_hit = 0;

}  // namespace

void HitKillPoint(size_t number) {
  const uint64_t hit = hits.at(number).fetch_add(1, std::memory_order_relaxed) + 1;
  if (number != armed.load(std::memory_order_relaxed)) return;
  if (hit != fatal_hit.load(std::memory_order_relaxed)) return;
  kill(getpid(), SIGKILL);
  while (true) pause();  // The signal may find another thread first.
}

void ArmKillPoint(std::string_view name, uint64_t nth) {
  const size_t number = KillPointNumber(name);
  KVT_CHECK(number < kKillPoints.size() && nth > 0);
  fatal_hit.store(KillPointHits(number) + nth, std::memory_order_relaxed);
  armed.store(number, std::memory_order_relaxed);
}

uint64_t KillPointHits(size_t number) { return hits.at(number).load(std::memory_order_relaxed); }

}  // namespace kvtier
