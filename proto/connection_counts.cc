#include "proto/connection_counts.h"

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"

namespace kvtier {
namespace {

// JSON is a text that gRPC allocated; null: it knows of no such thing.
using Json = std::unique_ptr<char, decltype(&gpr_free)>;

Json Own(char* text) { return {text, &gpr_free}; }

absl::string_view TextOf(const Json& json) {
  return json == nullptr ? absl::string_view() : absl::string_view(json.get());
}

// Returns the number that follows `name` at its last place in the text; 0: the name is not there.
// gRPC leaves out zeros, and writes numbers as strings. In a text that callers chose, such as the
// path of their socket, it escapes quotation marks, so `name`, which has some, is not found there.
int64_t LastNumber(absl::string_view json, absl::string_view name) {
  const size_t at = json.rfind(name);
  if (at == absl::string_view::npos) return 0;
  int64_t number = 0;
  for (const char digit : json.substr(at + name.size())) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(digit))) break;
    number = 10 * number + (digit - '0');
  }
  return number;
}

uint64_t Count(absl::string_view json, absl::string_view name) {
  return static_cast<uint64_t>(LastNumber(json, name));
}

}  // namespace

int64_t NewestServer() {
  int64_t newest = 0;
  while (true) {  // Each text has at most 100 servers.
    const Json servers = Own(grpc_channelz_get_servers(newest + 1));
    const int64_t last = LastNumber(TextOf(servers), "\"serverId\":\"");
    if (last == 0) return newest;
    newest = last;
  }
}

int64_t NewestConnection(int64_t server, int64_t after) {
  const Json connections = Own(grpc_channelz_get_server_sockets(server, after + 1, 0));
  return LastNumber(TextOf(connections), "\"socketId\":\"");
}

ConnectionCounts CountsOf(int64_t connection) {
  const Json json = Own(grpc_channelz_get_socket(connection));
  const absl::string_view text = TextOf(json);
  return {.begun = Count(text, "\"streamsStarted\":\""),
          .freed = Count(text, "\"streamsSucceeded\":\"") + Count(text, "\"streamsFailed\":\""),
          .messages = Count(text, "\"messagesReceived\":\"")};
}

}  // namespace kvtier
