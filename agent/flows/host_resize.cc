#include "agent/flows/host_resize.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/log.h"

namespace kvtier {

bool HostResizer::moves() const {
  return std::ranges::any_of(parts_.tenants->All(), [this](const Tenant* tenant) {
    return !parts_.shares->is_fixed(tenant->domain);
  });
}

uint64_t HostResizer::MinSlabs() const {
  uint64_t slabs = 0;
  for (const Tenant* const tenant : parts_.tenants->All()) {
    const bool stays = parts_.shares->is_fixed(tenant->domain);
    slabs += stays ? parts_.host->slots(tenant->domain).present_slabs() : 1;
  }
  return slabs;
}

absl::Status HostResizer::Begin(uint64_t bytes) {
  if (!moves()) {
    return absl::FailedPreconditionError(
        "host memory of this node cannot be resized while the agent runs; start the agent with "
        "--host_memory=moving and --worker_memory=direct, or with another --host_bytes");
  }
  const Size now = size();
  if (bytes < now.min_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes: ", bytes, "; must be at least ", now.min_bytes,
                     ", a slab for each tenant and all slabs of tenants whose memory cannot move"));
  }
  if (bytes > now.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bytes: ", bytes, "; must be at most ", now.max_bytes, ", the agent's --host_max_bytes"));
  }
  if (parts_.waits->ended()) {
    return absl::UnavailableError("the agent is stopping; ask again when it has restarted");
  }
  const uint64_t slabs = bytes / parts_.host->slab_bytes();
  Log(LogLevel::kInfo, absl::StrCat("resizing host memory from ", now.bytes, " to ",
                                    slabs * parts_.host->slab_bytes(), " bytes"));
  parts_.node_tenants->SetHostSlabs(slabs);
  parts_.mover->FillAll();
  deadline_ = parts_.executor->Now() + kHostResizeTimeout;
  ended_ = absl::OkStatus();
  if (end_ != nullptr) return absl::OkStatus();  // The running resize goes on to the new target.
  end_ = std::make_shared<Event>(parts_.executor);
  parts_.scope->Spawn(Run());
  return absl::OkStatus();
}

Task<bool> HostResizer::AwaitEnd(absl::Time deadline) {
  const std::shared_ptr<Event> end = end_;
  if (end == nullptr) co_return true;
  co_return co_await parts_.waits->Until(end.get(), deadline);
}

bool HostResizer::IsReached() const {
  return parts_.shares->IsSettled(*parts_.host) &&
         !parts_.shares->NextToFill(*parts_.host).has_value();
}

absl::Status HostResizer::Obstacle() const {
  const Size now = size();
  if (now.bytes < now.target_bytes && !parts_.mover->failure().empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host memory stays at ", now.bytes, " bytes: ", parts_.mover->failure(),
                     "; ask again when there is room, or raise the limit of the agent's cgroup"));
  }
  if (parts_.waits->ended()) {
    return absl::UnavailableError("the agent is stopping; ask again when it has restarted");
  }
  if (parts_.executor->Now() < deadline_) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("host memory stays at ", now.bytes, " bytes: not all slabs came or left in ",
                   absl::FormatDuration(kHostResizeTimeout), ", because workers hold leases or ",
                   "reservations in them; ask again when these have ended"));
}

Task<void> HostResizer::Run() {
  while (!IsReached()) {
    ended_ = Obstacle();
    if (!ended_.ok()) break;
    co_await SleepUntil(parts_.executor, parts_.executor->Now() + kMemoryMoveInterval);
  }
  const uint64_t there = parts_.shares->Present(*parts_.host);
  if (!ended_.ok() && !parts_.waits->ended()) {
    parts_.node_tenants->SetHostSlabs(there);
    Log(LogLevel::kWarning, std::string(ended_.message()));
  } else if (ended_.ok() && there < parts_.shares->slabs()) {
    ended_ = absl::FailedPreconditionError(absl::StrCat(
        (parts_.shares->slabs() - there) * parts_.host->slab_bytes(),
        " bytes of host memory are not taken from the system, because the tenants' maximums "
        "(host_maximum) let no tenant use them; raise one"));
  }
  parts_.mover->Rest();
  std::exchange(end_, nullptr)->Set();
}

HostResizer::Size HostResizer::size() const {
  const uint64_t slab_bytes = parts_.host->slab_bytes();
  Size size{.bytes = parts_.shares->Present(*parts_.host) * slab_bytes,
            .min_bytes = MinSlabs() * slab_bytes,
            .max_bytes = parts_.max_bytes - parts_.max_bytes % slab_bytes,
            .ended = ended_};
  size.target_bytes = is_under_way() ? parts_.shares->slabs() * slab_bytes : size.bytes;
  if (!moves()) size.min_bytes = size.max_bytes = size.bytes;
  return size;
}

}  // namespace kvtier
