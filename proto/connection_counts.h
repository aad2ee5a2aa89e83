// ConnectionCounts are what gRPC itself counts of one connection to a server of this process (its
// "channelz"). The door sees no call before gRPC has read, decoded and queued it, but these counts
// go up with the first frame of a call, and with its last byte of memory.
#ifndef KVTIER_PROTO_CONNECTION_COUNTS_H_
#define KVTIER_PROTO_CONNECTION_COUNTS_H_

#include <cstdint>

namespace kvtier {

struct ConnectionCounts {
  uint64_t begun = 0;     // Calls whose headers came.
  uint64_t freed = 0;     // Calls whose memory gRPC has freed since.
  uint64_t messages = 0;  // Requests that came whole.
};

// All of these may be called from any thread. Numbers are gRPC's own, and are never given twice.

// Returns the number of the server that was started last in this process; 0: there is none.
int64_t NewestServer();
// Returns the number of the server's newest connection, of those numbered above `after`; 0: there
// is none.
int64_t NewestConnection(int64_t server, int64_t after);
// Returns zeros when the connection is over and gRPC has freed all that it held.
ConnectionCounts CountsOf(int64_t connection);

}  // namespace kvtier

#endif  // KVTIER_PROTO_CONNECTION_COUNTS_H_
