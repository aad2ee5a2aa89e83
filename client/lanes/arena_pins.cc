#include "client/lanes/arena_pins.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status CheckCanBePinned(const HostMemory& memory) {
  if (memory.is_staged) {
    return absl::FailedPreconditionError(
        "the agent runs with --worker_memory=staged, and a device copies only to and from an "
        "arena; start it with --worker_memory=direct");
  }
  if (memory.moves) {
    return absl::FailedPreconditionError(
        "the agent's host memory moves between tenants, and a device needs memory that stays; "
        "start the agent with --host_memory=fixed");
  }
  return absl::OkStatus();
}

void LogNotPinned(const absl::Status& why) {
  Log(LogLevel::kWarning,
      absl::StrCat(
          "worker lanes: the agent's host memory cannot be pinned, so copies to and from it fail: ",
          std::string(why.message())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PinnedArena>> PinnedArena::Pin(Device* device,
                                                                    const HostMemory& memory) {
  const std::span<std::byte> bytes =
      memory.write->Write(0, memory.write->size()).value_or(std::span<std::byte>());
  KVT_RETURN_IF_ERROR(device->Pin(bytes));
  return absl::WrapUnique(new PinnedArena(device, memory, bytes));
}

PinnedArena::PinnedArena(Device* device, HostMemory memory, std::span<std::byte> bytes)
    : device_(device), memory_(std::move(memory)), bytes_(bytes) {}

PinnedArena::~PinnedArena() {
  device_->Unpin(bytes_).IgnoreError();  // Fails only for a lost device, which needs no unpinning.
}

std::byte* PinnedArena::Pinned(std::span<const std::byte> leased) const {
  const auto all = memory_.read->Read(0, memory_.read->size());
  if (!all || leased.data() < all->data()) return nullptr;
  const auto offset = static_cast<size_t>(leased.data() - all->data());
  if (offset > bytes_.size() || leased.size() > bytes_.size() - offset) return nullptr;
  return bytes_.data() + offset;
}

Task<ArenaPins::Arena> ArenaPins::Now() {
  while (true) {
    const HostMemory memory = client_->host_memory();
    if (pinned_ != nullptr && pinned_->memory().write == memory.write) co_return pinned_;
    if (memory.read == nullptr || memory.write == nullptr) {
      pinned_.reset();
      co_return std::shared_ptr<const PinnedArena>();
    }
    KVT_CO_RETURN_IF_ERROR(CheckCanBePinned(memory));
    const std::shared_ptr<Pinning> pinning = Begin(memory);
    co_await pinning->done.WaitUntil(absl::InfiniteFuture());
    // The pin that it waited for was another session's; this session's must follow.
    if (pinning->memory.write == memory.write) co_return pinning->arena;
  }
}

std::shared_ptr<ArenaPins::Pinning> ArenaPins::Begin(const HostMemory& memory) {
  if (pinning_ != nullptr) return pinning_;
  pinned_.reset();
  pinning_ = std::make_shared<Pinning>(memory, lanes_);
  pinner_.Post([this, pinning = pinning_] {
    auto pinned = PinnedArena::Pin(device_, pinning->memory);
    if (pinned.ok()) {
      // Whichever thread drops it last, the pinner unpins it.
      pinning->arena = std::shared_ptr<const PinnedArena>(
          pinned->release(), [pinner = &pinner_](const PinnedArena* arena) {
            pinner->Post([owned = std::unique_ptr<const PinnedArena>(arena)] {});
          });
    } else {
      pinning->arena = pinned.status();
    }
    lanes_->Post([this, pinning] { Ended(pinning); });
  });
  return pinning_;
}

void ArenaPins::Ended(const std::shared_ptr<Pinning>& pinning) {
  pinning_.reset();
  if (pinning->arena.ok()) {
    pinned_ = *pinning->arena;
  } else {
    LogNotPinned(pinning->arena.status());
  }
  pinning->done.Set();
}

void ArenaPins::Refresh() {
  const HostMemory memory = client_->host_memory();
  if (memory.write == nullptr) {
    pinned_.reset();
    return;
  }
  if (pinning_ != nullptr || memory.write == tried_.lock()) return;
  tried_ = memory.write;
  const bool pinned = pinned_ != nullptr && pinned_->memory().write == memory.write;
  if (pinned || memory.read == nullptr) return;
  if (const absl::Status can = CheckCanBePinned(memory); !can.ok()) return LogNotPinned(can);
  Begin(memory);
}

}  // namespace kvtier
