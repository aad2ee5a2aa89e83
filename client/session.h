// Session is this worker's connection as the agent sees it: the handshake on the
// descriptor socket, the token that its calls carry, and the shared memory it was
// handed. It ends when either side hangs up; whatever was leased or reserved under it
// ends with it. It speaks no gRPC.
#ifndef KVTIER_CLIENT_SESSION_H_
#define KVTIER_CLIENT_SESSION_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/gpu_memory.h"
#include "client/mapping.h"
#include "client/packet_socket.h"
#include "core/block_key.h"

namespace kvtier {

// Who connects, and where.
struct SessionOptions {
  std::string socket_dir;  // The agent's --socket_dir.
  std::string tenant;
  TenantKey tenant_key;
};

// Thread-safe: immutable but for the socket's state, which the kernel keeps.
class Session {
 public:
  // Connects, shakes hands and maps what the agent hands out, all before `deadline`
  // (MonotonicClock). Errors: kUnavailable, no agent; kDeadlineExceeded, it does not
  // answer; kFailedPrecondition, it speaks other versions or breaks the protocol;
  // kPermissionDenied, tenant, proof or user is refused; kResourceExhausted, it has
  // too many sessions.
  static absl::StatusOr<std::shared_ptr<const Session>> Open(const SessionOptions& options,
                                                             absl::Time deadline);

  const std::string& token() const { return token_; }  // 16 bytes.
  // Leased blocks are read here. Never null.
  const std::shared_ptr<const Mapping>& arena_read() const { return arena_read_; }
  // Reserved slots are written here. Null: the agent hands out none.
  const std::shared_ptr<const Mapping>& arena_write() const { return arena_write_; }
  // Null: the node has no pool for this tenant.
  const std::shared_ptr<const GpuMemory>& gpu() const { return gpu_; }
  // Null: there is no pool, or none that can be mapped here.
  std::shared_ptr<const Mapping> gpu_pool() const {
    return gpu_ == nullptr ? nullptr : gpu_->mapping;
  }

  // True once the agent is gone or End() was called: what it granted is void.
  bool HasEnded() const { return socket_.HungUp(); }
  // Hangs up; the mappings stay as long as someone holds them.
  void End() const { socket_.HangUp(); }
  int fd() const { return socket_.fd(); }  // To poll for POLLRDHUP.

 private:
  explicit Session(PacketSocket socket) : socket_(std::move(socket)) {}
  absl::Status MapMemory(absl::Time deadline);
  absl::Status MapGpu(absl::Time deadline);

  PacketSocket socket_;
  uint16_t version_ = 0;  // That both sides speak.
  std::string token_;
  std::shared_ptr<const Mapping> arena_read_;
  std::shared_ptr<const Mapping> arena_write_;
  std::shared_ptr<const GpuMemory> gpu_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SESSION_H_
