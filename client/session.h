// Session is this worker's connection as the agent sees it: the handshake on the descriptor socket,
// the token that its calls carry, and the shared memory that the agent handed to it. It ends when
// either side hangs up, and its leases and reservations end with it. It speaks no gRPC.
#ifndef KVTIER_CLIENT_SESSION_H_
#define KVTIER_CLIENT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/fork_guard.h"
#include "client/gpu_memory.h"
#include "client/mapping.h"
#include "client/packet_socket.h"
#include "client/residency_view.h"
#include "core/block_key.h"
#include "core/session_key.h"

namespace kvtier {

// Identity of the worker, and the agent that it connects to.
struct SessionOptions {
  std::string socket_dir;  // The agent's --socket_dir.
  std::string tenant;
  std::string group{};  // Share group whose blocks are worked on; empty: the tenant's own are.
  TenantKey tenant_key;
  SessionKey session_key;
  bool gpu_by_device = false;  // ClientOptions::gpu_by_device.
  DeviceUuid gpu_device{};     // GPU whose pool is asked for; none: any.
};

// Longest wait of a call for the handles of a pool that has changed since it was mapped.
inline constexpr absl::Duration kFollowTimeout = absl::Milliseconds(100);
// Interval at which a session looks whether the pool has changed, if no call told it so.
inline constexpr absl::Duration kPoolLookInterval = absl::Seconds(1);

// Thread-safe: immutable but for the pool and the residency table, which it follows, and the
// socket's state, which the kernel keeps.
class Session {
 public:
  // Connects, shakes hands and maps what the agent hands out, all before `deadline`
  // (MonotonicClock). Errors: kUnavailable, no agent; kDeadlineExceeded, it does not
  // answer; kFailedPrecondition, it speaks other versions or breaks the protocol;
  // kPermissionDenied, tenant, group, proof or user is refused; kResourceExhausted, it has
  // too many sessions.
  static absl::StatusOr<std::shared_ptr<const Session>> Open(const SessionOptions& options,
                                                             absl::Time deadline);

  const std::string& token() const { return token_; }  // 16 bytes.
  // Returns the key that names the blocks of the share group; nullopt: they are the tenant's own.
  const std::optional<TenantKey>& group_key() const { return group_key_; }
  // Returns false if the tenant may only read the blocks of the share group.
  bool may_write() const { return may_write_; }
  // Returns ", to read share group prompts", for the log; empty: it works in none.
  std::string GroupText() const;
  // Returns the memory in which leased blocks are read. Never null.
  const std::shared_ptr<const Mapping>& arena_read() const { return arena_read_; }
  // Returns the memory in which reserved slots are written: the arena, or a staging region of the
  // session's own, from which the agent copies at commit. Null: the agent hands out none. While it
  // is held, slots that the session had reserved in the arena are not reused, even after the
  // session's end.
  const std::shared_ptr<const Mapping>& write_memory() const { return write_memory_; }
  // Returns whether write_memory() is the session's own region.
  bool is_staged() const { return staged_; }
  // Returns whether parts of the arena's memory come and go.
  bool arena_moves() const { return arena_moves_; }
  // Returns the pool as it was at the last look; null: the node has no pool for this tenant, or
  // this is a forked child.
  std::shared_ptr<const GpuMemory> gpu() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether the pool may grow and shrink: it has addresses for more than one handle.
  bool pool_changes() const ABSL_LOCKS_EXCLUDED(mu_);
  // Looks whether the pool has changed, and maps it as it is now.
  // Errors: kUnavailable, the agent hung up, hands out no pool any more, or a handle cannot be
  // mapped; kDeadlineExceeded; kFailedPrecondition, it breaks the protocol. The old mapping stays
  // usable for slots that were granted before.
  absl::Status LookAtPool(absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mu_);
  // Makes sure that the pool is mapped at `version`, which an answer named, or later, so that the
  // answer's slots may be used. Errors: LookAtPool()'s; kUnavailable also, the agent has an older
  // version only.
  absl::Status FollowPool(uint64_t version, absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the table of the node's blocks, which the agent keeps up to date; once it is retired it
  // stays so until RenewResidency(). Null: the agent hands out none, or this is a forked child.
  std::shared_ptr<const ResidencyView> residency() const ABSL_LOCKS_EXCLUDED(mu_);
  // Maps the residency table that the agent has now. Errors: kUnavailable, the agent hung up or
  // hands out none any more, or the table cannot be mapped; kDeadlineExceeded; kFailedPrecondition,
  // the agent breaks the protocol.
  absl::Status RenewResidency(absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns whether the agent is gone or End() was called, so that its grants are void. Always true
  // in a forked child.
  bool HasEnded() const { return InForkedChild() || socket_.HungUp(); }
  // Hangs up; the mappings stay while an object holds them.
  void End() const { socket_.HangUp(); }
  int fd() const { return socket_.fd(); }  // Returns the descriptor to poll for POLLRDHUP.

 private:
  Session(PacketSocket socket, const SessionOptions& options)
      : group_(options.group),
        gpu_by_device_(options.gpu_by_device),
        gpu_device_(options.gpu_device),
        socket_(std::move(socket)) {}
  absl::Status MapMemory(absl::Time deadline);
  absl::Status MapWriteMemory(absl::Time deadline);
  absl::Status MapGpu(absl::Time deadline);
  void MapHandles(const GpuMemory& pool);
  // Takes the turn to look. Returns false if another thread had it until `deadline`.
  bool BeginLook(absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the turn.
  void EndLook() const ABSL_LOCKS_EXCLUDED(mu_);
  // Looks, and returns the pool as it is now.
  absl::StatusOr<std::shared_ptr<const GpuMemory>> Look(const GpuMemory& known,
                                                        absl::Time deadline) const;

  const std::string group_;
  const bool gpu_by_device_;
  const DeviceUuid gpu_device_;
  mutable PacketSocket socket_;    // Used by Open(), then by the thread with the turn to look.
  mutable size_t unanswered_ = 0;  // Requests without a reply yet; used as socket_.
  std::string token_;
  std::optional<TenantKey> group_key_;
  bool may_write_ = true;
  std::shared_ptr<const Mapping> arena_read_;
  std::shared_ptr<const Mapping> write_memory_;
  bool staged_ = false;
  bool arena_moves_ = false;
  std::shared_ptr<Mapping> pool_mapping_;  // The thread with the turn changes its handles.
  mutable absl::Mutex mu_;
  mutable bool looking_ ABSL_GUARDED_BY(mu_) = false;
  mutable std::shared_ptr<const GpuMemory> gpu_ ABSL_GUARDED_BY(mu_);
  mutable std::shared_ptr<const ResidencyView> residency_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SESSION_H_
