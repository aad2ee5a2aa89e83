#include "proto/link.h"

#include <algorithm>

#include "proto/convert.h"

namespace kvtier {
namespace {

constexpr absl::Duration kLongestDeadline = absl::Hours(24 * 365);

}  // namespace

grpc::ChannelArguments LinkArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(convert::kMaxMessageBytes);
  return arguments;
}

std::chrono::system_clock::time_point DeadlineIn(absl::Duration left) {
  // Longer is as good as none, and could not be added.
  if (left > kLongestDeadline) return std::chrono::system_clock::time_point::max();
  return std::chrono::system_clock::now() +
         absl::ToChronoNanoseconds(std::max(left, absl::ZeroDuration()));
}

absl::Duration LeftUntil(std::chrono::system_clock::time_point deadline) {
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteDuration();
  return absl::FromChrono(deadline - std::chrono::system_clock::now());
}

}  // namespace kvtier
