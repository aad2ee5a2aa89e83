#include "agent/gpu/gpu_divider.h"

#include <algorithm>
#include <utility>

#include "agent/gpu/gpu_parts.h"
#include "agent/limits.h"
#include "core/event.h"

namespace kvtier {

uint64_t GpuDivider::bytes() const {
  return divides() ? bytes_ * devices() : parts_.gpus->capacity_bytes();
}

void GpuDivider::Divide(const std::map<DomainId, TierShare>& shares) {
  if (!divides()) return;
  const GpuPool& pool = parts_.gpus->at(0).pool();
  const uint64_t unit = pool.handle_bytes();
  std::vector<TierShare> in_handles;
  for (const DomainId domain : parts_.gpus->tenants()) {
    TierShare share = shares.at(domain);
    share.guaranteed /= unit * devices();
    if (share.maximum != UINT64_MAX) share.maximum /= unit * devices();
    in_handles.push_back(share);
  }
  handles_ = GpuParts(bytes_ / unit, LeastGpuPart(pool.slot_bytes(), unit), in_handles);
  if (!std::exchange(running_, true)) parts_.scope->Spawn(Run());
}

uint64_t GpuDivider::PartOf(DomainId domain) const {
  if (parts_.gpus->empty()) return 0;
  const std::vector<DomainId>& tenants = parts_.gpus->tenants();
  const auto found = std::ranges::find(tenants, domain);
  if (found == tenants.end()) return 0;
  if (!divides()) return parts_.gpus->capacity_bytes();
  const auto i = static_cast<size_t>(found - tenants.begin());
  return handles_.empty() ? 0 : handles_[i] * devices() * parts_.gpus->at(i).pool().handle_bytes();
}

Task<void> GpuDivider::Run() {
  while (!parts_.waits->ended() && Step()) {
    Event never(parts_.executor);
    co_await parts_.waits->Until(&never, parts_.executor->Now() + kGpuDivideInterval);
  }
  running_ = false;
}

bool GpuDivider::Step() {
  bool is_unmet = false;
  for (size_t first = 0; first < parts_.gpus->size(); first += handles_.size()) {
    is_unmet |= StepOn(first);
  }
  return is_unmet;
}

bool GpuDivider::StepOn(size_t first) {
  const uint64_t unit = parts_.gpus->at(first).pool().handle_bytes();
  uint64_t free = bytes_ / unit * unit;
  for (size_t i = 0; i < handles_.size(); ++i) {
    const GpuResizer::Progress now = parts_.gpus->at(first + i).resizer().progress();
    free -= std::max(now.bytes, now.target_bytes);
  }
  bool is_unmet = false;
  for (size_t i = 0; i < handles_.size(); ++i) {
    GpuResizer& resizer = parts_.gpus->at(first + i).resizer();
    const GpuResizer::Progress now = resizer.progress();
    const uint64_t wanted = handles_[i] * unit;
    const uint64_t taken = std::max(now.bytes, now.target_bytes);
    const uint64_t next = wanted > taken ? std::min(wanted, taken + free) : wanted;
    if (next > taken) free -= next - taken;
    is_unmet |= now.bytes != wanted || now.target_bytes != wanted;
    // Fails only where the agent is stopping.
    if (next != now.target_bytes) resizer.Begin(next).IgnoreError();
  }
  return is_unmet;
}

}  // namespace kvtier
