#include "tests/testing/fake_cuda_ranges.h"

#include <iterator>
#include <map>
#include <mutex>

#include "core/check.h"
#include "tests/testing/fake_cuda.h"

namespace kvtier::testing::fake_cuda {
namespace {

struct Seen {
  std::mutex mu;
  std::map<const std::byte*, SeenRange> ranges;  // Ranges by their first byte.
};

Seen& seen() {
  static Seen one;
  return one;
}

// Returns the range that has the byte; null: none has. REQUIRES: the lock is held.
const SeenRange* Find(const std::byte* host) {
  const auto after = seen().ranges.upper_bound(host);
  if (after == seen().ranges.begin()) return nullptr;
  const SeenRange& range = std::prev(after)->second;
  return host < range.begin + range.bytes ? &range : nullptr;
}

}  // namespace

// NOLINTBEGIN(performance-no-int-to-ptr): a device's address is a number to the host.
void* DeviceSide(const void* host) {
  return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(host) + kDeviceSide);
}

std::byte* HostAddress(const void* device) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(device) - kDeviceSide);
}
// NOLINTEND(performance-no-int-to-ptr)

bool AddRange(const void* host, uint64_t bytes, RangeKind kind) {
  auto* const begin = const_cast<std::byte*>(static_cast<const std::byte*>(host));
  const std::lock_guard lock(seen().mu);
  const auto next = seen().ranges.lower_bound(begin);
  if (bytes == 0 || Find(begin) != nullptr ||
      (next != seen().ranges.end() && next->first < begin + bytes)) {
    return false;
  }
  seen().ranges[begin] = {begin, bytes, kind, kind != RangeKind::kMapped};
  return true;
}

uint64_t RemoveRange(const void* host, RangeKind kind) {
  const std::lock_guard lock(seen().mu);
  const auto found = seen().ranges.find(static_cast<const std::byte*>(host));
  KVT_CHECK(found != seen().ranges.end() && found->second.kind == kind);
  const uint64_t bytes = found->second.bytes;
  seen().ranges.erase(found);
  return bytes;
}

bool AllowAccess(const void* host, uint64_t bytes) {
  const auto* at = static_cast<const std::byte*>(host);
  const std::byte* const end = at + bytes;
  const std::lock_guard lock(seen().mu);
  while (at < end) {
    const auto found = seen().ranges.find(at);
    if (found == seen().ranges.end() || found->second.kind != RangeKind::kMapped) return false;
    found->second.accessible = true;
    at += found->second.bytes;
  }
  return at == end;
}

std::optional<SeenRange> RangeAt(const void* device) {
  const std::lock_guard lock(seen().mu);
  const SeenRange* const range = Find(HostAddress(device));
  return range == nullptr ? std::nullopt : std::optional(*range);
}

std::byte* InOneRange(const void* device, uint64_t bytes) {
  std::byte* const at = HostAddress(device);
  const std::lock_guard lock(seen().mu);
  const SeenRange* const range = Find(at);
  const bool inside = range != nullptr && range->accessible &&
                      bytes <= static_cast<uint64_t>(range->begin + range->bytes - at);
  return inside ? at : nullptr;
}

std::byte* Touched(const void* device, uint64_t bytes) {
  std::byte* const begin = HostAddress(device);
  const std::lock_guard lock(seen().mu);
  for (const std::byte* at = begin; at < begin + bytes;) {
    const SeenRange* const range = Find(at);
    KVT_CHECK(range != nullptr && range->accessible);
    at = range->begin + range->bytes;
  }
  return begin;
}

}  // namespace kvtier::testing::fake_cuda
