#include "proto/floods.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

// Returns the bytes of the socket that wait to be read.
size_t BytesWaiting(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCINQ, &bytes) == 0 ? static_cast<size_t>(bytes) : 0;
}

}  // namespace

uint64_t Unfinished(const ConnectionCounts& counts) {
  // The counts are not read at one moment.
  return counts.begun - std::min(counts.begun, counts.freed);
}

ConnectionLoad ConnectionWatch::Look(int fd) {
  const ConnectionCounts counts = CountsOf(number_);
  const uint64_t progress = counts.begun + counts.messages;
  const bool is_busy = progress == progress_ && BytesWaiting(fd) >= kBusyBytes;
  busy_looks_ = is_busy ? busy_looks_ + 1 : 0;
  progress_ = progress;
  return {.unfinished = Unfinished(counts), .busy_looks = busy_looks_};
}

std::vector<size_t> FloodsAmong(std::span<const ConnectionLoad> connections,
                                const FloodLimits& limits) {
  std::vector<size_t> floods;
  std::vector<size_t> others;
  uint64_t all = 0;
  for (size_t i = 0; i < connections.size(); ++i) {
    const ConnectionLoad& each = connections[i];
    all += each.unfinished;
    if (each.hung_up) continue;
    const bool is_flood = each.unfinished > kMaxUnfinishedCalls || each.busy_looks > kMaxBusyLooks;
    (is_flood ? floods : others).push_back(i);
  }
  for (const size_t flood : floods) all -= connections[flood].unfinished;
  std::sort(others.begin(), others.end(), [&](size_t a, size_t b) {
    return connections[a].unfinished > connections[b].unfinished;
  });
  for (const size_t most : others) {
    if (all <= limits.of_door || connections[most].unfinished <= limits.open_calls) break;
    all -= connections[most].unfinished;
    floods.push_back(most);
  }
  return floods;
}

std::string FloodText(const ConnectionLoad& flood) {
  if (flood.busy_looks > kMaxBusyLooks) {
    return "one connection sends without making a call; hung up on it";
  }
  return absl::StrCat("one connection has ", flood.unfinished,
                      " calls that are not finished; hung up on it");
}

}  // namespace kvtier
