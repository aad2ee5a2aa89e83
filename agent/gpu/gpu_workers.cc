#include "agent/gpu/gpu_workers.h"

#include <utility>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

GpuWorkers::~GpuWorkers() {
  for (const auto& [session, worker] : workers_) End(worker.get());
}

absl::StatusOr<const SignalPage*> GpuWorkers::Attach(SessionId session) {
  auto found = workers_.find(session);
  if (found == workers_.end()) {
    Sweep();
    KVT_ASSIGN_OR_RETURN(const PoolWorker number, words_.Attach());
    const GpuWorker worker{.table = table_, .words = &words_, .number = number};
    found = workers_.emplace(session, std::make_shared<GpuWorker>(worker)).first;
  }
  return words_.page(found->second->number).get();
}

std::shared_ptr<const GpuWorker> GpuWorkers::Find(SessionId session) const {
  const auto found = workers_.find(session);
  return found == workers_.end() ? nullptr : found->second;
}

GpuHold GpuWorkers::Hold(SessionId session, SlotRef slot) {
  const auto found = workers_.find(session);
  if (found == workers_.end() || found->second->hung_up) return {};
  absl::StatusOr<GpuHold> hold = GpuHold::Of(found->second, slot);
  KVT_CHECK(hold.ok());
  return *std::move(hold);
}

BegunSteps GpuWorkers::StepsOf(SessionId session) {
  words_.Observe();
  return BegunSteps(Find(session));
}

void GpuWorkers::Close(SessionId session) {
  const auto found = workers_.find(session);
  if (found != workers_.end()) found->second->hung_up = true;
}

void GpuWorkers::ProcessGone(SessionId session) {
  const auto found = workers_.find(session);
  if (found == workers_.end()) return;
  KVT_CHECK(found->second->hung_up);
  End(found->second.get());
  workers_.erase(found);
}

void GpuWorkers::Sweep() {
  words_.Observe();
  absl::erase_if(workers_, [this](const auto& place) {
    GpuWorker& worker = *place.second;
    const bool done = table_->retired(worker.number) >= table_->begun(worker.number);
    if (!worker.hung_up || !done) return false;
    End(&worker);
    return true;
  });
}

void GpuWorkers::End(GpuWorker* worker) {
  worker->hung_up = true;
  worker->gone = true;
  words_.Detach(worker->number);
}

}  // namespace kvtier
