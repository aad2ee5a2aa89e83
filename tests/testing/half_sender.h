// HalfSender is a caller that behaves as no gRPC library would. Over one connection it begins many
// calls, and sends as much of each request as flow control lets it, but never the last byte; or it
// sends whole requests and never makes room for an answer.
#ifndef KVTIER_TESTS_TESTING_HALF_SENDER_H_
#define KVTIER_TESTS_TESTING_HALF_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace kvtier::testing {

class HalfSender {
 public:
  struct Options {
    std::string socket_path;  // Path of a Unix socket.
    std::string rpc;          // "/kvtier.v1.Worker/Match".
    std::string message;      // Serialised.
    size_t held_back = 1;     // Bytes at the end of each message that never come.
    // Whether it reads answers; if not, its windows for answers stay at 0.
    bool reads_answers = true;
    // Maximum number of open calls; the server may allow fewer.
    uint32_t most_calls = 1 << 20;
  };
  explicit HalfSender(Options options);
  ~HalfSender();
  HalfSender(const HalfSender&) = delete;
  HalfSender& operator=(const HalfSender&) = delete;

  // Sends and receives as much as is possible without waiting; false: the other side hung up.
  bool Step();
  bool over() const { return over_; }
  // Return the message bytes sent in all calls so far, and the number of open calls.
  uint64_t sent_bytes() const { return sent_bytes_; }
  size_t open_calls() const { return calls_.size(); }
  uint64_t ended_calls() const { return ended_calls_; }  // Calls that the server ended.

 private:
  struct Call {
    int64_t window = 0;
    size_t sent = 0;  // Bytes sent so far, with the 5 bytes before the message.
  };
  void Queue(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);
  void BeginCall();
  void SendData();
  bool ReadFrames();
  void OnFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);
  void OnSettings(const std::string& payload);

  const Options options_;
  const std::string headers_;  // Headers of each call.
  const std::string body_;     // Bytes that each call is to send.
  const int fd_;
  bool over_ = false;
  std::string in_;
  std::string out_;
  int64_t window_ = 65535;  // Flow-control window of the connection, in bytes.
  int64_t initial_window_ = 65535;
  uint32_t server_calls_ = 1 << 20;
  uint32_t next_stream_ = 1;
  std::map<uint32_t, Call> calls_;
  uint64_t sent_bytes_ = 0;
  uint64_t ended_calls_ = 0;
  bool settled_ = false;  // The server's settings have come.
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_HALF_SENDER_H_
