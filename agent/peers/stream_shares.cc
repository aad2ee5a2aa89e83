#include "agent/peers/stream_shares.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {
namespace {

// Part of the streams that is guaranteed: one in this many.
constexpr size_t kGuaranteedPart = 2;

size_t Less(size_t from, size_t what) { return from - std::min(from, what); }

}  // namespace

size_t StreamShares::GuaranteeOf(size_t tenants) const {
  return std::max(size_t{1}, limit_ / kGuaranteedPart / tenants);
}

size_t StreamShares::FreeFor(DomainId domain, size_t tenants) const {
  const size_t guarantee = GuaranteeOf(tenants);
  const size_t own = Less(guarantee, Taken(domain));
  // Streams of a tenant that was dropped count as if they were another's, until they end.
  size_t kept = Less(guarantee * tenants, guarantee);
  for (const auto& [other, count] : streams_) {
    if (other != domain) kept = Less(kept, std::min(count, guarantee));
  }
  kept = std::min(kept, limit_ / kGuaranteedPart);
  const size_t free = limit_ - taken_;
  return std::min(free, own + Less(free, own + kept));
}

void StreamShares::Take(DomainId domain) {
  KVT_CHECK(taken_ < limit_);
  ++streams_[domain];
  ++taken_;
}

void StreamShares::GiveBack(DomainId domain) {
  const auto streams = streams_.find(domain);
  KVT_CHECK(streams != streams_.end());
  if (--streams->second == 0) streams_.erase(streams);
  --taken_;
}

size_t StreamShares::Taken(DomainId domain) const {
  const auto streams = streams_.find(domain);
  return streams == streams_.end() ? 0 : streams->second;
}

uint64_t StreamShares::Refused(DomainId domain) const {
  const auto found = refused_.find(domain);
  return found == refused_.end() ? 0 : found->second;
}

}  // namespace kvtier
