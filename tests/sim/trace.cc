#include "tests/sim/trace.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier::sim {

void Trace::Fold(uint64_t value) {
  for (int i = 0; i < 8; ++i) {
    hash_ = (hash_ ^ (value & 0xff)) * 0x100000001b3;
    value >>= 8;
  }
}

void Trace::Add(const char* what, std::initializer_list<uint64_t> values) {
  KVT_CHECK(values.size() <= kMaxValues);
  Event& event = kept_[events_++ % kKept];
  event = {.time_ns = absl::ToUnixNanos(clock_->Now()), .what = what, .count = values.size()};
  std::copy(values.begin(), values.end(), event.values.begin());
  Fold(static_cast<uint64_t>(event.time_ns));
  for (const char* c = what; *c != 0; ++c) Fold(static_cast<uint8_t>(*c));
  for (const uint64_t value : values) Fold(value);
  if (aloud_) Print(event, stdout);
}

void Trace::Print(const Event& event, std::FILE* out) {
  std::fprintf(out, "  %14.9f %-22s", static_cast<double>(event.time_ns) * 1e-9, event.what);
  for (size_t i = 0; i < event.count; ++i) {
    std::fprintf(out, " %llu", static_cast<unsigned long long>(event.values[i]));
  }
  std::fputc('\n', out);
}

void Trace::PrintTail(std::FILE* out) const {
  const uint64_t first = events_ > kKept ? events_ - kKept : 0;
  for (uint64_t i = first; i < events_; ++i) Print(kept_[i % kKept], out);
}

}  // namespace kvtier::sim
