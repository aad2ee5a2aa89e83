// Floods are connections that have gRPC do so much that its memory or its threads run out. gRPC
// bounds the calls that are open at a time, but a call that its caller has reset at once is not
// open, and takes its memory until gRPC comes to end it.
#ifndef KVTIER_PROTO_FLOODS_H_
#define KVTIER_PROTO_FLOODS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/connection_counts.h"

namespace kvtier {

// Maximum number of unfinished calls of one connection: calls that began and whose memory gRPC has
// not freed. A caller that gives up calls and makes new ones has calls that still run until their
// own deadlines.
inline constexpr uint64_t kMaxUnfinishedCalls = 4096;
// Maximum for all connections of a door together. Beyond it the door hangs up on connections with
// more unfinished calls than may be open, those with the most first. Most calls take 4 to 12 KiB.
inline constexpr uint64_t kMaxUnfinishedCallsOfDoor = 16384;
// A connection is busy when so many bytes of it wait to be read, and neither a call began nor a
// request came since the door looked before: all that it sends is frames that belong to no request.
inline constexpr size_t kBusyBytes = size_t{16} << 10;
// Looks in a row (kLookInterval, in rpc_door.h) at which a connection may be busy. Counts looks
// because those stop when the process does, and gRPC with them.
inline constexpr int kMaxBusyLooks = 50;

// ConnectionLoad is what the door saw of one connection.
struct ConnectionLoad {
  uint64_t unfinished = 0;  // Unfinished calls.
  int busy_looks = 0;       // Looks in a row at which it was busy.
  bool hung_up = false;     // The connection is over; gRPC has not yet freed what it holds.
};

// Returns how many calls are unfinished.
uint64_t Unfinished(const ConnectionCounts& counts);

// ConnectionWatch follows one connection from look to look. Not thread-safe.
class ConnectionWatch {
 public:
  ConnectionWatch() = default;
  // `number` is the connection's in what gRPC counts.
  explicit ConnectionWatch(int64_t number) : number_(number) {}
  // Returns the load of the connection, whose socket is `fd`.
  ConnectionLoad Look(int fd);

 private:
  int64_t number_ = 0;
  uint64_t progress_ = 0;  // Calls that began and requests that came, at the last look.
  int busy_looks_ = 0;
};

struct FloodLimits {
  uint64_t open_calls = 0;  // Calls that may be open on one connection.
  // Unfinished calls of all connections together; 0 while memory is short.
  uint64_t of_door = kMaxUnfinishedCallsOfDoor;
};

// Returns the indices of the connections to hang up on.
std::vector<size_t> FloodsAmong(std::span<const ConnectionLoad> connections,
                                const FloodLimits& limits);

// Returns what the log says of a connection that is hung up on.
std::string FloodText(const ConnectionLoad& flood);

}  // namespace kvtier

#endif  // KVTIER_PROTO_FLOODS_H_
