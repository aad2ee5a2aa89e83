// SeldomLog logs what callers can cause as often as they like.
#ifndef KVTIER_CORE_SELDOM_LOG_H_
#define KVTIER_CORE_SELDOM_LOG_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "core/log.h"

namespace kvtier {

// Shortest time between two lines of a SeldomLog.
inline constexpr absl::Duration kSeldom = absl::Seconds(1);

// SeldomLog is used by one thread at a time.
class SeldomLog {
 public:
  // Writes `text`, unless a line was written less than kSeldom before `now`. A line ends with the
  // number of those that were left out before it.
  void Write(LogLevel level, const std::string& text, absl::Time now);

 private:
  absl::Time next_ = absl::InfinitePast();
  uint64_t left_out_ = 0;  // Number of lines.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SELDOM_LOG_H_
