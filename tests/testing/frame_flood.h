// FrameFlood is a caller that sends HTTP/2 frames as fast as its socket takes them, without waiting
// for an answer: each call is reset as soon as it has begun, or there is no call at all.
#ifndef KVTIER_TESTS_TESTING_FRAME_FLOOD_H_
#define KVTIER_TESTS_TESTING_FRAME_FLOOD_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvtier::testing {

class FrameFlood {
 public:
  enum class Kind {
    kResetCalls,    // Headers of a call, and at once its end.
    kOpenCalls,     // Headers of calls, more than the server allows: it ignores the server's limit.
    kPartialCalls,  // Headers, a part of the request as large as a frame, and at once the end.
    kHeaders,       // Headers of one call that never end.
    kOneHeader,     // One header of one call, which never ends.
    kPings,
  };
  struct Options {
    std::string address;  // Path of a Unix socket, or "127.x.y.z:port".
    std::string rpc;      // "/kvtier.v1.Worker/Match".
    Kind kind = Kind::kResetCalls;
    uint32_t most_calls = 1 << 30;  // Calls that it begins.
  };
  explicit FrameFlood(Options options);
  ~FrameFlood();
  FrameFlood(const FrameFlood&) = delete;
  FrameFlood& operator=(const FrameFlood&) = delete;

  // Sends as much as is possible without waiting; false: the other side hung up.
  bool Step();
  int fd() const { return fd_; }  // Polls writable when Step() can send more.

 private:
  void QueueCall();
  void QueueHeader();
  void QueueMore();

  const Options options_;
  const std::string headers_;  // Headers of each call.
  const int fd_;
  uint32_t next_stream_ = 1;
  uint64_t pings_ = 0;
  std::string out_;
  size_t sent_ = 0;  // Bytes of out_ that are sent.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FRAME_FLOOD_H_
