#include "tests/testing/half_sender.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tests/testing/http2_frames.h"

namespace kvtier::testing {
namespace {

// Settings of RFC 9113.
constexpr uint16_t kMaxConcurrentStreams = 3;
constexpr uint16_t kInitialWindowSize = 4;
constexpr size_t kMaxFrameBytes = 16384;
constexpr size_t kMaxQueuedBytes = size_t{1} << 18;

uint32_t Number(const std::string& text, size_t at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

int Connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

HalfSender::HalfSender(Options options)
    : options_(std::move(options)),
      headers_(CallHeaders(options_.rpc)),
      body_(BigEndian(options_.message.size(), 5) + options_.message),
      fd_(Connect(options_.socket_path)),
      over_(fd_ < 0) {
  out_ = kHttp2Preface;
  Queue(kSettingsFrame, 0, 0,
        options_.reads_answers ? "" : BigEndian(kInitialWindowSize, 2) + BigEndian(0, 4));
  if (options_.reads_answers) Queue(kWindowUpdateFrame, 0, 0, BigEndian(1 << 30, 4));
}

HalfSender::~HalfSender() { close(fd_); }

void HalfSender::Queue(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  out_ += Frame(type, flags, stream, payload);
}

void HalfSender::BeginCall() {
  Queue(kHeadersFrame, kEndHeaders, next_stream_, headers_);
  calls_[next_stream_].window = initial_window_;
  next_stream_ += 2;
}

void HalfSender::SendData() {
  const size_t wanted = body_.size() - options_.held_back;
  for (auto& [stream, call] : calls_) {
    while (call.sent < wanted && out_.size() < kMaxQueuedBytes) {
      const int64_t may = std::min<int64_t>({static_cast<int64_t>(wanted - call.sent), window_,
                                             call.window, static_cast<int64_t>(kMaxFrameBytes)});
      if (may <= 0) break;
      const bool last = options_.held_back == 0 && call.sent + may == wanted;
      Queue(kDataFrame, last ? kEndStream : 0, stream, body_.substr(call.sent, may));
      call.sent += may;
      call.window -= may;
      window_ -= may;
      sent_bytes_ += may;
    }
  }
}

bool HalfSender::Step() {
  if (over_) return false;
  if (settled_) {
    while (calls_.size() < std::min(server_calls_, options_.most_calls) &&
           out_.size() < kMaxQueuedBytes) {
      BeginCall();
    }
    SendData();
  }
  const ssize_t sent = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) out_.erase(0, static_cast<size_t>(sent));
  if ((sent < 0 && errno != EAGAIN) || !ReadFrames()) over_ = true;
  return !over_;
}

bool HalfSender::ReadFrames() {
  char bytes[65536];
  const ssize_t count = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN)) return false;
  if (count > 0) in_.append(bytes, static_cast<size_t>(count));
  size_t at = 0;
  while (in_.size() - at >= kFrameHeaderBytes) {
    const size_t length = Number(in_, at, 3);
    if (in_.size() - at < kFrameHeaderBytes + length) break;
    OnFrame(static_cast<uint8_t>(in_[at + 3]), static_cast<uint8_t>(in_[at + 4]),
            Number(in_, at + 5, 4), in_.substr(at + kFrameHeaderBytes, length));
    at += kFrameHeaderBytes + length;
  }
  in_.erase(0, at);
  return !over_;
}

void HalfSender::OnSettings(const std::string& payload) {
  for (size_t at = 0; at + 6 <= payload.size(); at += 6) {
    const uint32_t value = Number(payload, at + 2, 4);
    if (Number(payload, at, 2) == kMaxConcurrentStreams) server_calls_ = value;
    if (Number(payload, at, 2) != kInitialWindowSize) continue;
    for (auto& [stream, call] : calls_) call.window += value - initial_window_;
    initial_window_ = value;
  }
  settled_ = true;
  Queue(kSettingsFrame, kAck, 0, "");
}

void HalfSender::OnFrame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  const auto call = calls_.find(stream);
  if (type == kSettingsFrame && (flags & kAck) == 0) OnSettings(payload);
  if (type == kPingFrame && (flags & kAck) == 0) Queue(kPingFrame, kAck, 0, payload);
  if (type == kGoAwayFrame) over_ = true;
  if (type == kWindowUpdateFrame) {
    if (stream == 0) window_ += Number(payload, 0, 4);
    if (call != calls_.end()) call->second.window += Number(payload, 0, 4);
  }
  const bool ended = type == kResetStreamFrame ||
                     ((type == kHeadersFrame || type == kDataFrame) && (flags & kEndStream) != 0);
  if (ended && call != calls_.end()) {
    calls_.erase(call);
    ++ended_calls_;
  }
}

}  // namespace kvtier::testing
