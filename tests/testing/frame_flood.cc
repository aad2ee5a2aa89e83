#include "tests/testing/frame_flood.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "tests/testing/http2_frames.h"

namespace kvtier::testing {
namespace {

// Frames that are made at a time.
constexpr int kFramesQueued = 1000;
constexpr size_t kFrameBytes = 16'000;
// Address of the callers over TCP: another one than that of all other callers on this machine.
constexpr uint32_t kCallersAddress = 0x7f'00'00'09;
// A field whose name and value are not compressed, and whose value has all bytes that a number of
// five bytes can say (RFC 7541, 5.1).
constexpr char kEndlessField[] = "\x01x\x7f\xff\xff\xff\xff\x07";

int ConnectTo(const std::string& address) {
  int fd = -1;
  int failed = 0;
  if (address.front() == '/') {
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof(to.sun_path) - 1);
    failed = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  } else {
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(kCallersAddress);
    const size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    failed = bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) |
             connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  }
  if (failed == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

FrameFlood::FrameFlood(Options options)
    : options_(std::move(options)),
      headers_(CallHeaders(options_.rpc)),
      fd_(ConnectTo(options_.address)) {
  out_ = kHttp2Preface + Frame(kSettingsFrame, 0, 0, "");
}

FrameFlood::~FrameFlood() {
  if (fd_ >= 0) close(fd_);
}

void FrameFlood::QueueCall() {
  if (next_stream_ / 2 >= options_.most_calls) return;
  out_ += Frame(kHeadersFrame, kEndHeaders, next_stream_, headers_);
  if (options_.kind == Kind::kPartialCalls) {
    out_ += Frame(kDataFrame, 0, next_stream_,
                  BigEndian(2 * kFrameBytes, 5) + std::string(kFrameBytes, 'x'));
  }
  if (options_.kind != Kind::kOpenCalls) {
    constexpr uint32_t kCancel = 8;
    out_ += Frame(kResetStreamFrame, 0, next_stream_, BigEndian(kCancel, 4));
  }
  next_stream_ += 2;
}

void FrameFlood::QueueHeader() {
  const bool one = options_.kind == Kind::kOneHeader;
  if (next_stream_ == 1) {
    const std::string last =
        one ? std::string(1, '\0') + kEndlessField : Field("x-first", "header");
    out_ += Frame(kHeadersFrame, 0, next_stream_, headers_ + last);
    next_stream_ += 2;
  }
  std::string more;
  while (more.size() < kFrameBytes - 200)
    more += one ? "xxxx" : Field("x-more", std::string(100, 'x'));
  out_ += Frame(kContinuationFrame, 0, 1, more);
}

void FrameFlood::QueueMore() {
  out_.clear();
  sent_ = 0;
  for (int i = 0; i < kFramesQueued && out_.size() < 16 * kFrameBytes; ++i) {
    if (options_.kind == Kind::kPings) {
      out_ += Frame(kPingFrame, 0, 0, BigEndian(++pings_, 8));
    } else if (options_.kind == Kind::kHeaders || options_.kind == Kind::kOneHeader) {
      QueueHeader();
    } else {
      QueueCall();
    }
  }
}

bool FrameFlood::Step() {
  if (fd_ < 0) return false;
  char answers[65536];
  const ssize_t read = recv(fd_, answers, sizeof(answers), MSG_DONTWAIT);
  if (read == 0 || (read < 0 && errno != EAGAIN)) return false;
  if (sent_ == out_.size()) QueueMore();
  if (out_.empty()) return true;
  const ssize_t sent =
      send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN;
  sent_ += static_cast<size_t>(sent);
  return true;
}

}  // namespace kvtier::testing
