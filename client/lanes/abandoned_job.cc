#include "client/lanes/abandoned_job.h"

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {
namespace {

struct KeptThings {
  absl::Mutex mu;
  std::vector<std::shared_ptr<const void>> things ABSL_GUARDED_BY(mu);
};

}  // namespace

void KeepForever(std::shared_ptr<const void> kept) {
  // Never deleted: the copies may run for longer than any destructor at the exit.
  static auto* const all = new KeptThings;
  const absl::MutexLock lock(&all->mu);
  all->things.push_back(std::move(kept));
}

}  // namespace kvtier
