#include "client/take_slots_call.h"

#include <algorithm>
#include <vector>

#include "core/space.h"

namespace kvtier {

bool TakeSlotsCall::Fill(const std::shared_ptr<Connection>& connection) {
  const auto space = connection->FindSpace(static_cast<size_t>(space_));
  connection_ = connection;
  memory_ = BlockMemory::GpuPool(connection->session());
  if (!space || space->id == 0 || memory_.mapping() == nullptr) return false;
  block_bytes_ = space->lengths.longest;
  messages.request.set_session_token(connection->session()->token());
  messages.request.set_space_id(space->id);
  messages.request.set_slots(slots_);
  return true;
}

GrantedSlots TakeSlotsCall::Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome) {
  GrantedSlots granted;
  if (outcome != CallOutcome::kAnswered) return granted;
  const bool reached = memory_.Follow(messages.response.gpu_version(), messages.timeout);
  granted.link_ = link;
  granted.connection_ = connection_;
  granted.memory_ = memory_;
  granted.space_ = static_cast<size_t>(space_);
  granted.block_bytes_ = block_bytes_;
  granted.slot_bytes_ = SlotBytes(block_bytes_);
  std::vector<uint64_t> outside;
  for (const uint32_t number : messages.response.slots()) {
    // Slots that this client cannot reach are of no use.
    if (reached && memory_.Write(number * granted.slot_bytes_, granted.slot_bytes_)) {
      granted.numbers_.push_back(number);
    } else {
      outside.push_back(number);
    }
  }
  std::ranges::sort(granted.numbers_);
  link->Release(connection_.get(), ReleaseQueue::Kind::kSlot, outside);
  return granted;
}

}  // namespace kvtier
