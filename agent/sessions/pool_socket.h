// PoolSocket takes offers of the GPU pool that an agent before this one had, from workers
// that outlived it and still map it: the memory, by its descriptors, and the page in
// which each says whether it still uses any of it. It also watches those that do not
// offer. The protocol is PoolOffer's in proto/session_wire.h.
//
// It believes nothing about what is in the memory; that it is the pool's tenant who
// offers is proved as for a session. Ahead of Serve() one thread; then a thread of its
// own, which knows the agent only by the calls below.
#ifndef KVTIER_AGENT_SESSIONS_POOL_SOCKET_H_
#define KVTIER_AGENT_SESSIONS_POOL_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/gpu/earlier_workers.h"
#include "agent/sessions/tenants.h"
#include "proto/session_wire.h"
#include "tier_gpu/pool_ledger.h"

namespace kvtier {

// One conversation; who is slower is cut off, for others wait meanwhile.
inline constexpr absl::Duration kPoolOfferTimeout = absl::Milliseconds(500);

class PoolSocket {
 public:
  struct Options {
    std::string path;
    std::vector<uid_t> allowed_uids;  // Of the connecting process.
    TenantTable tenants;
    // Of the pool that is wanted; not owned, and read by Listen() only.
    const PoolLedger* ledger = nullptr;
  };
  struct Calls {
    absl::AnyInvocable<void(OfferedPage)> offered;
    absl::AnyInvocable<void(size_t ledger_place)> gone;
  };
  // Maps the handles of the pool, all of them (or the first of them, after TakeFewer()) and
  // in order; not OK: they are not wanted.
  using Import = absl::FunctionRef<absl::Status(std::span<const int> handles)>;

  // Binds, replacing a stale socket. Errors: kUnavailable, with the path and errno's text.
  static absl::StatusOr<std::unique_ptr<PoolSocket>> Listen(const Options& options);
  // Joins the thread, removes the socket.
  ~PoolSocket();
  PoolSocket(const PoolSocket&) = delete;
  PoolSocket& operator=(const PoolSocket&) = delete;

  // Takes offers until one brought the memory. False: none did before `deadline`
  // (MonotonicClock).
  bool AwaitPool(absl::Time deadline, Import import);
  // From here on memory is wanted, too, of which the last handles are missing: who mapped
  // those had no time to.
  void TakeFewer() { wanted_handles_ = 1; }
  // What was offered so far, beside memory.
  const std::vector<OfferedPage>& pages() const { return pages_; }
  // From here on takes pages only, and says which of the ledger's workers end, until this
  // is destroyed. Once.
  void Serve(Calls calls);

 private:
  PoolSocket(const Options& options, int listen_fd, int stop_fd);
  // One connection that waits. True: it brought the memory.
  bool Take(const Import* import);
  bool Converse(int fd, absl::Time deadline, const Import* import);
  bool Authenticate(int fd, absl::Time deadline);
  wire::PoolAnswerCode TakePage(const wire::PoolOffer& offer, int descriptor);
  wire::PoolAnswerCode TakeHandles(int fd, absl::Time deadline, uint32_t handles,
                                   const Import& import);
  void Run();

  const Options options_;
  const std::string tenant_;
  const uint64_t incarnation_;
  const RegionShape shape_;
  const size_t handles_;
  size_t wanted_handles_;
  const std::vector<PoolLedger::Worker> workers_;
  const int listen_fd_;
  const int stop_fd_;  // An eventfd: readable when the thread is to end.
  std::vector<OfferedPage> pages_;
  Calls calls_;
  std::map<int, size_t> processes_;  // Of the ledger's workers, by pidfd.
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_POOL_SOCKET_H_
