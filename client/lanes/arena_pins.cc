#include "client/lanes/arena_pins.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::shared_ptr<const PinnedArena>> PinnedArena::Pin(Device* device,
                                                                    const HostMemory& memory) {
  const std::span<std::byte> bytes =
      memory.write->Write(0, memory.write->size()).value_or(std::span<std::byte>());
  KVT_RETURN_IF_ERROR(device->Pin(bytes));
  return absl::WrapUnique(new PinnedArena(device, memory, bytes));
}

PinnedArena::PinnedArena(Device* device, HostMemory memory, std::span<std::byte> bytes)
    : device_(device), memory_(std::move(memory)), bytes_(bytes) {}

PinnedArena::~PinnedArena() {
  device_->Unpin(bytes_).IgnoreError();  // It is there, and a lost device needs none.
}

std::byte* PinnedArena::Pinned(std::span<const std::byte> leased) const {
  const auto all = memory_.read->Read(0, memory_.read->size());
  if (!all || leased.data() < all->data()) return nullptr;
  const auto offset = static_cast<size_t>(leased.data() - all->data());
  if (offset > bytes_.size() || leased.size() > bytes_.size() - offset) return nullptr;
  return bytes_.data() + offset;
}

absl::StatusOr<std::shared_ptr<const PinnedArena>> ArenaPins::Now() {
  const HostMemory memory = client_->host_memory();
  if (pinned_ != nullptr && pinned_->memory().write == memory.write) return pinned_;
  pinned_.reset();
  if (memory.read == nullptr || memory.write == nullptr) {
    return std::shared_ptr<const PinnedArena>();
  }
  if (memory.is_staged) {
    return absl::FailedPreconditionError(
        "the agent runs with --worker_memory=staged: a device copies to and from an arena alone");
  }
  KVT_ASSIGN_OR_RETURN(pinned_, PinnedArena::Pin(device_, memory));
  return pinned_;
}

void ArenaPins::Refresh() {
  const std::shared_ptr<const Mapping> now = client_->host_memory().write;
  if (now != nullptr && now == tried_.lock()) return;
  tried_ = now;
  const auto pinned = Now();
  if (pinned.ok()) return;
  Log(LogLevel::kWarning, absl::StrCat("worker lanes: the agent's host memory is not pinned: ",
                                       std::string(pinned.status().message())));
}

}  // namespace kvtier
