#include "core/seldom_log.h"

#include "absl/strings/str_cat.h"

namespace kvtier {

void SeldomLog::Write(LogLevel level, const std::string& text, absl::Time now) {
  if (now < next_) {
    ++left_out_;
    return;
  }
  Log(level, left_out_ == 0 ? text : absl::StrCat(text, " (", left_out_, " such lines left out)"));
  next_ = now + kSeldom;
  left_out_ = 0;
}

}  // namespace kvtier
