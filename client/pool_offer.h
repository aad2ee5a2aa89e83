// OfferPool hands the GPU pool of an agent that is gone to the next one, which asks for it
// while it starts: the memory by its descriptors, and the page of the session that ended.
// OfferPage is of another session's use of that memory: its page alone.
#ifndef KVTIER_CLIENT_POOL_OFFER_H_
#define KVTIER_CLIENT_POOL_OFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/gpu_memory.h"
#include "client/session.h"
#include "client/step_page.h"

namespace kvtier {

// How long a client without an agent keeps the pool to offer it: memory of the GPU that
// nobody can use meanwhile.
inline constexpr absl::Duration kKeepLostPool = absl::Seconds(60);

// True for a pool that an agent may want back.
inline bool CanOffer(const GpuMemory& pool) {
  return pool.steps != nullptr && pool.incarnation != 0 && !pool.handles.empty();
}

// A session's page, and of which memory its use was.
struct PoolPage {
  uint64_t incarnation = 0;
  uint64_t handle_bytes = 0;
  size_t max_handles = 0;
  std::shared_ptr<const StepPage> steps;
};
inline PoolPage PageOf(const GpuMemory& pool) {
  return {.incarnation = pool.incarnation,
          .handle_bytes = pool.handle_bytes,
          .max_handles = pool.max_handles,
          .steps = pool.steps};
}

// OK: the agent has the memory, or had it already, and knows our page. REQUIRES:
// CanOffer(pool). Errors: kUnavailable, no agent asks; kDeadlineExceeded; else as
// Session::Open(), and kFailedPrecondition also when the agent does not want this pool,
// and why: forget it.
absl::Status OfferPool(const SessionOptions& options, const GpuMemory& pool, absl::Time deadline);
// OK: the agent knows the page. Errors: as OfferPool().
absl::Status OfferPage(const SessionOptions& options, const PoolPage& page, absl::Time deadline);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_POOL_OFFER_H_
