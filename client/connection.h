// Connection is one session together with the gRPC channel of its calls, the agent's ids of our
// spaces in it, and the queue of leases and reservations to give back. A reconnection makes a new
// one.
#ifndef KVTIER_CLIENT_CONNECTION_H_
#define KVTIER_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/fork_guard.h"
#include "client/release_queue.h"
#include "client/session.h"
#include "client/space_limits.h"
#include "client/space_table.h"
#include "core/block_lengths.h"
#include "core/space.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier {

// Thread-safe.
class Connection {
 public:
  // Makes the connection, which cannot fail: the channel connects by itself, on the first call.
  Connection(const std::string& socket_dir, std::shared_ptr<const Session> session);

  const std::shared_ptr<const Session>& session() const { return session_; }
  v1::Worker::StubInterface& stub() const { return *stub_; }
  ReleaseQueue& releases() { return releases_; }

  // Makes an empty call, to see whether the agent answers at all.
  absl::Status Ping(absl::Duration timeout) const;

  // Sends the ids that releases() has due, and queues them again if that fails. After it has
  // released spaces, those that the agent refused count as not registered yet.
  absl::Status FlushReleases(absl::Duration timeout, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);

  // Space as the agent knows it in this session.
  struct Space {
    uint32_t id = 0;       // The agent's id of the space; 0: the agent refused the space.
    BlockLengths lengths;  // Lengths that its blocks may have.
    SpaceLimits limits{};
  };
  // Tells the agent of space number `index` (of SpaceTable). Idempotent.
  absl::Status RegisterSpace(size_t index, const SpaceSpec& spec, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that the agent refused the space: it is not asked again until another is released.
  void RefuseSpace(size_t index, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the space as the agent knows it; nullopt: not registered here yet.
  std::optional<Space> FindSpace(size_t index) const ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets the space and has releases() tell the agent. Returns true if releases() is due sooner
  // now.
  bool ForgetSpace(size_t index, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets all spaces that `spaces` does not have any more, for example because they were removed
  // while they were being registered.
  void ForgetRemoved(const SpaceTable& spaces, absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void SetSpace(size_t index, const Space& space) ABSL_LOCKS_EXCLUDED(mu_);
  void ForgetRefused() ABSL_LOCKS_EXCLUDED(mu_);

  const ClientUse use_;  // Declared first, so that it outlives the channel.
  const std::shared_ptr<const Session> session_;
  const std::unique_ptr<v1::Worker::StubInterface> stub_;
  ReleaseQueue releases_;
  mutable absl::Mutex mu_;
  // Spaces that the agent was told of, by their index in SpaceTable.
  std::map<size_t, Space> spaces_ ABSL_GUARDED_BY(mu_);
  std::string logged_refusal_ ABSL_GUARDED_BY(mu_);  // Latest logged reason for refusing a space.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CONNECTION_H_
