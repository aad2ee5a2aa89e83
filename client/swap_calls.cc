#include "client/swap_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent_link.h"
#include "client/connection.h"
#include "core/space.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier {
namespace {

// Timeout of a swap out, in which the agent waits for the end of a step and then copies.
constexpr absl::Duration kSwapOutTimeout = absl::Seconds(22);

// Returns the error of a call that failed. Without an answer nobody knows whether a copy still
// reads or writes the slots. Then this ends the session, and with it the slots and the sequence.
absl::Status ErrorOf(const char* name, bool is_sent, const grpc::Status& answer,
                     Connection* connection) {
  if (!is_sent) {
    return absl::UnavailableError(absl::StrCat(name,
                                               ": there is no agent, or the session that granted "
                                               "the slots has ended; compute the sequence again"));
  }
  const absl::Status status = convert::FromGrpc(answer);
  const std::string text = absl::StrCat(name, ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:
      return absl::Status(status.code(), text);
    case absl::StatusCode::kNotFound:
      return absl::DataLossError(text);
    case absl::StatusCode::kAborted:
      return absl::UnavailableError(text);
    default:
      connection->session()->End();
      return absl::UnavailableError(text);
  }
}

}  // namespace

SwapOutCall::SwapOutCall(const GrantedSlots& slots, std::span<const uint32_t> numbers,
                         const SwapOutOptions& options)
    : slots_(slots) {
  messages.timeout = kSwapOutTimeout;
  messages.request.mutable_slots()->Add(numbers.begin(), numbers.end());
  messages.request.set_step(options.step);
  messages.request.set_priority(options.priority);
  messages.request.set_keep_slots(options.keep_slots);
}

bool SwapOutCall::Fill(const std::shared_ptr<Connection>& connection) {
  const auto space = connection->FindSpace(slots_.space_);
  if (connection != slots_.connection_ || !space || space->id == 0) return false;
  messages.request.set_session_token(connection->session()->token());
  messages.request.set_space_id(space->id);
  return true;
}

SwapOutCall::Result SwapOutCall::Finish(const std::shared_ptr<AgentLink>& link,
                                        CallOutcome outcome) {
  if (outcome != CallOutcome::kAnswered) {
    return ErrorOf(kName, is_sent_, answer_, slots_.connection_.get());
  }
  SwappedSequence swapped;
  swapped.link_ = link;
  swapped.connection_ = slots_.connection_;
  swapped.id_ = messages.response.swap_id();
  swapped.blocks_ = static_cast<size_t>(messages.request.slots_size());
  swapped.space_ = slots_.space_;
  swapped.block_bytes_ = slots_.block_bytes_;
  return swapped;
}

SwapInCall::SwapInCall(const SwappedSequence& sequence, std::span<const uint32_t> own,
                       absl::Duration timeout)
    : sequence_(sequence) {
  messages.timeout = timeout + kSwapCopyTimeout;
  messages.request.set_swap_id(sequence.id_);
  messages.request.set_timeout_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(timeout)));
  messages.request.mutable_slots()->Add(own.begin(), own.end());
}

bool SwapInCall::Fill(const std::shared_ptr<Connection>& connection) {
  if (connection != sequence_.connection_) return false;
  messages.request.set_session_token(connection->session()->token());
  return true;
}

SwapInCall::Result SwapInCall::Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome) {
  Connection* const connection = sequence_.connection_.get();
  if (outcome != CallOutcome::kAnswered) return ErrorOf(kName, is_sent_, answer_, connection);
  GrantedSlots granted;
  if (messages.request.slots_size() > 0) return granted;  // The caller has the slots.
  granted.link_ = link;
  granted.connection_ = sequence_.connection_;
  granted.memory_ = BlockMemory::GpuPool(connection->session());
  granted.space_ = sequence_.space_;
  granted.block_bytes_ = sequence_.block_bytes_;
  granted.slot_bytes_ = SlotBytes(sequence_.block_bytes_);
  granted.numbers_.assign(messages.response.slots().begin(), messages.response.slots().end());
  bool reached = granted.numbers_.size() == sequence_.blocks_ &&
                 granted.memory_.Follow(messages.response.gpu_version(), messages.timeout);
  for (const uint32_t number : granted.numbers_) {
    reached = reached &&
              granted.memory_.Write(number * granted.slot_bytes_, granted.slot_bytes_).has_value();
  }
  if (reached) return granted;
  return absl::DataLossError(
      absl::StrCat(kName,
                   ": the agent granted slots of the GPU pool that are not mapped in this process; "
                   "free the sequence and compute it again"));
}

absl::StatusOr<SwappedSequence> GrantedSlots::SwapOut(std::span<const uint32_t> numbers,
                                                      const SwapOutOptions& options) {
  std::vector<uint32_t> leaving(numbers.begin(), numbers.end());
  std::ranges::sort(leaving);
  std::vector<uint32_t> granted = numbers_;
  std::ranges::sort(granted);
  if (leaving.empty() || !std::ranges::includes(granted, leaving)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "numbers: ", leaving.size(), " slots; must be 1 or more of the granted ones, each once"));
  }
  SwapOutCall call(*this, numbers, options);
  KVT_ASSIGN_OR_RETURN(SwappedSequence swapped, RunCall(link_, &call));
  if (!options.keep_slots) {
    std::erase_if(numbers_,
                  [&](uint32_t number) { return std::ranges::binary_search(leaving, number); });
  }
  return swapped;
}

SwappedSequence& SwappedSequence::operator=(SwappedSequence&& other) noexcept {
  if (this == &other) return *this;
  Release();
  link_ = std::move(other.link_);
  connection_ = std::move(other.connection_);
  id_ = other.id_;
  blocks_ = other.blocks_;
  space_ = other.space_;
  block_bytes_ = other.block_bytes_;
  return *this;
}

void SwappedSequence::Release() {
  if (link_ == nullptr) return;
  link_->Release(connection_.get(), ReleaseQueue::Kind::kSwap, std::span(&id_, 1));
  link_ = nullptr;
  connection_ = nullptr;
}

absl::StatusOr<GrantedSlots> SwappedSequence::SwapIn(absl::Duration timeout) {
  if (link_ == nullptr) {
    return absl::InvalidArgumentError(
        "swap_in: the sequence is NULL or back already; must be swapped out");
  }
  if (timeout < absl::ZeroDuration() || timeout > kMaxSwapInTimeout) {
    return absl::InvalidArgumentError(absl::StrCat("timeout is ", absl::FormatDuration(timeout),
                                                   "; must be 0 to ",
                                                   absl::FormatDuration(kMaxSwapInTimeout)));
  }
  SwapInCall call(*this, {}, timeout);
  KVT_ASSIGN_OR_RETURN(GrantedSlots slots, RunCall(link_, &call));
  link_ = nullptr;  // The agent does not have the sequence any more.
  connection_ = nullptr;
  return slots;
}

absl::Status SwappedSequence::SwapInto(const GrantedSlots& slots,
                                       std::span<const uint32_t> numbers) {
  if (link_ == nullptr || numbers.size() != blocks_ || slots.connection_ != connection_) {
    return absl::InvalidArgumentError(
        absl::StrCat("numbers: ", numbers.size(), " slots for ", blocks_,
                     " blocks; must be one for each, granted by the session that swapped out"));
  }
  SwapInCall call(*this, numbers, absl::ZeroDuration());
  KVT_RETURN_IF_ERROR(RunCall(link_, &call).status());
  link_ = nullptr;
  connection_ = nullptr;
  return absl::OkStatus();
}

}  // namespace kvtier
