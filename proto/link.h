// Arguments and deadlines that every link of ours gives to gRPC.
#ifndef KVTIER_PROTO_LINK_H_
#define KVTIER_PROTO_LINK_H_

#include <chrono>

#include "absl/time/time.h"
#include "grpcpp/support/channel_arguments.h"

namespace kvtier {

// Returns arguments for a channel that takes messages of convert::kMaxMessageBytes, and that no
// proxy of the environment (http_proxy, grpc_proxy) sees: one that is meant for the web would be
// asked for nodes and sockets that it does not reach, or would answer for a node that is down.
grpc::ChannelArguments LinkArguments();

// Returns a deadline for gRPC, whose own clock is monotonic: it converts a deadline by the system's
// clock of this moment, so that it is `left` from now also where that clock was set just now, which
// absl::Now() follows only seconds later.
std::chrono::system_clock::time_point DeadlineIn(absl::Duration left);

// Returns what is left until a deadline of gRPC (InfiniteDuration: there is none), by the same
// clock.
absl::Duration LeftUntil(std::chrono::system_clock::time_point deadline);

}  // namespace kvtier

#endif  // KVTIER_PROTO_LINK_H_
