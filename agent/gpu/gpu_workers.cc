#include "agent/gpu/gpu_workers.h"

#include <utility>

#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<GpuHold> GpuHold::Of(std::shared_ptr<const GpuWorker> worker, SlotRef slot) {
  KVT_RETURN_IF_ERROR(worker->table->Hold(worker->number, slot));
  GpuHold hold;
  hold.worker_ = std::move(worker);
  hold.slot_ = slot;
  return hold;
}

GpuHold& GpuHold::operator=(GpuHold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  worker_ = std::move(other.worker_);
  slot_ = other.slot_;
  return *this;
}

void GpuHold::Release() {
  const std::shared_ptr<const GpuWorker> worker = std::move(worker_);
  worker_ = nullptr;
  if (worker == nullptr || worker->hung_up) return;
  // A step that began since we last looked may read the slot, too.
  worker->words->Observe();
  KVT_CHECK(worker->table->Release(worker->number, slot_).ok());
}

BegunSteps::BegunSteps(std::shared_ptr<const GpuWorker> worker) : worker_(std::move(worker)) {
  if (worker_ != nullptr) last_ = worker_->table->begun(worker_->number);
}

bool BegunSteps::ended() const {
  return worker_ == nullptr || worker_->gone || worker_->table->retired(worker_->number) >= last_;
}

GpuWorkers::~GpuWorkers() {
  for (const auto& [session, worker] : workers_) End(worker.get());
}

absl::StatusOr<const SignalPage*> GpuWorkers::Attach(SessionId session) {
  auto found = workers_.find(session);
  if (found == workers_.end()) {
    Sweep();
    KVT_ASSIGN_OR_RETURN(const PoolWorker number, words_.Attach());
    auto worker =
        std::make_shared<GpuWorker>(GpuWorker{.table = table_, .words = &words_, .number = number});
    found = workers_.emplace(session, std::move(worker)).first;
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
    bool done = table_->retired(worker.number) >= table_->begun(worker.number);
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
