// EarlierWorkers are the workers that mapped the GPU pool under the agent before this
// one and may still compute in it. What was not free then is held here, beside whatever
// is done with it now, so that no slot is used again before all of them are done: each
// is when its process is gone, or when it offered its page and the page says that the
// worker uses nothing of its old session any more and that every step has ended.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_EARLIER_WORKERS_H_
#define KVTIER_AGENT_GPU_EARLIER_WORKERS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/pool_ledger.h"
#include "tier_gpu/step_words.h"

namespace kvtier {

// The page that a worker offered, and which one it is.
struct OfferedPage {
  PageId id;
  std::shared_ptr<const SignalPage> page;
};

class EarlierWorkers {
 public:
  // None is owned. `workers`: those of the ledger. Who was never given a slot is done.
  EarlierWorkers(GpuPool* pool, StepWords* words, PoolLedger* ledger,
                 const std::vector<PoolLedger::Worker>& workers);
  // Nobody waits for them any more.
  ~EarlierWorkers();
  EarlierWorkers(const EarlierWorkers&) = delete;
  EarlierWorkers& operator=(const EarlierWorkers&) = delete;

  // Keeps these slots, which somebody holds, from being used again. Once, ahead of all
  // below. Errors: StepWords::Attach()'s.
  absl::Status Keep(std::span<const SlotRef> slots);
  // A page of none of them is ignored: it was done before.
  void Offered(const OfferedPage& offered);
  // The process of the worker with this place in the ledger is gone, and its context on
  // the device with it.
  void Gone(size_t place);
  // Looks at the pages.
  void Sweep();

  size_t size() const { return waiting_.size(); }  // Those that are not done.

 private:
  struct Waiting {
    PoolLedger::Worker worker;
    std::shared_ptr<const SignalPage> page;  // Null: not offered yet.
  };
  static bool IsDone(const Waiting& waiting);
  void ReleaseIfDone();

  GpuPool* const pool_;
  StepWords* const words_;
  PoolLedger* const ledger_;
  std::vector<Waiting> waiting_;
  // Who holds the slots in the table, within a step that ends when all are done.
  std::optional<PoolWorker> holder_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_EARLIER_WORKERS_H_
