// Http2Frames are the bytes of HTTP/2 (RFC 9113) and of its headers (RFC 7541), for callers that
// behave as no gRPC library would.
#ifndef KVTIER_TESTS_TESTING_HTTP2_FRAMES_H_
#define KVTIER_TESTS_TESTING_HTTP2_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvtier::testing {

// Types of frames, and their flags.
inline constexpr uint8_t kDataFrame = 0;
inline constexpr uint8_t kHeadersFrame = 1;
inline constexpr uint8_t kResetStreamFrame = 3;
inline constexpr uint8_t kSettingsFrame = 4;
inline constexpr uint8_t kPingFrame = 6;
inline constexpr uint8_t kGoAwayFrame = 7;
inline constexpr uint8_t kWindowUpdateFrame = 8;
inline constexpr uint8_t kContinuationFrame = 9;
inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kAck = 1;  // Flag of settings and pings.
inline constexpr uint8_t kEndHeaders = 4;
inline constexpr size_t kFrameHeaderBytes = 9;

// Bytes that a client sends before its first frame.
inline constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

inline std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  return BigEndian(payload.size(), 3) + BigEndian(type, 1) + BigEndian(flags, 1) +
         BigEndian(stream, 4) + payload;
}

// Returns a header field that is not compressed and that no table remembers. REQUIRES: both are
// shorter than 127 bytes.
inline std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

// Returns the headers of a call.
inline std::string CallHeaders(const std::string& rpc) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":authority", "localhost") +
         Field("te", "trailers") + Field("content-type", "application/grpc") + Field(":path", rpc);
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_HTTP2_FRAMES_H_
