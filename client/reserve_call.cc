#include "client/reserve_call.h"

#include <algorithm>
#include <vector>

#include "client/releases_along.h"

namespace kvtier {
namespace {

// Returns the state of a block for which there is no slot that this client can write. A state that
// only a later agent knows does not promise that the block is there.
ReservedBlocks::State WithoutSlot(v1::ReservedBlock::State state) {
  switch (state) {
    case v1::ReservedBlock::PRESENT:
      return ReservedBlocks::State::kPresent;
    case v1::ReservedBlock::PENDING:
      return ReservedBlocks::State::kPending;
    default:
      return ReservedBlocks::State::kNoRoom;
  }
}

}  // namespace

bool ReserveCall::Fill(const std::shared_ptr<Connection>& connection) {
  const bool to_gpu = target_ == OnboardTarget::kGpu;
  connection_ = connection;
  memory_ = to_gpu ? BlockMemory::GpuPool(connection->session())
                   : BlockMemory::Arena(connection->session()->write_memory());
  // A reader of a share group is told by the agent why it may not write.
  if (memory_.none() && connection->session()->may_write()) return false;
  messages.request.set_target(to_gpu ? v1::TIER_GPU : v1::TIER_HOST);
  messages.request.set_timeout_ms(AgentTimeoutMs(messages.timeout));
  if (!FillSequences(*connection, sequences_, &messages.request, &asked_)) return false;
  if (messages.request.sequences().empty() || !FillLengths()) return false;
  TakeReleasesAlong(connection.get(), &messages.request);
  return true;
}

bool ReserveCall::FillLengths() {
  int place = 0;
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (asked_[i].left_out) continue;
    v1::Sequence* const wire = messages.request.mutable_sequences(place++);
    if (!asked_[i].lengths.any) continue;
    const std::span<const uint64_t> lengths = sequences_[i].lengths;
    if (lengths.size() != asked_[i].keys) return false;
    wire->mutable_lengths()->Add(lengths.begin(), lengths.end());
  }
  return true;
}

ReservedBlocks ReserveCall::Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome) {
  ReturnReleases(link.get(), connection_.get(), messages.request, outcome);
  ReservedBlocks reserved;
  int place = 0;  // Place of the sequence in the request.
  for (const AskedSequence& sequence : asked_) {
    const v1::Sequence* wire = nullptr;
    if (!sequence.left_out && place < messages.request.sequences_size()) {
      wire = &messages.request.sequences(place++);
    }
    for (size_t i = 0; i < sequence.keys; ++i) {
      ReservedBlocks::Block& block = reserved.blocks_.emplace_back();
      if (sequence.left_out) {
        block.state = ReservedBlocks::State::kNoStore;
        continue;
      }
      const bool has_own = wire != nullptr && static_cast<int>(i) < wire->lengths_size();
      keys_.push_back(
          {.place = reserved.blocks_.size() - 1,
           .length = has_own ? wire->lengths(static_cast<int>(i)) : sequence.lengths.longest});
    }
  }
  reserved.answered_ = outcome == CallOutcome::kAnswered || keys_.empty();
  if (outcome == CallOutcome::kAnswered) Read(link, &reserved);
  return reserved;
}

void ReserveCall::Read(const std::shared_ptr<AgentLink>& link, ReservedBlocks* reserved) {
  std::vector<uint64_t> unusable;
  const bool reached = memory_.Follow(messages.response.gpu_version(), messages.timeout);
  size_t i = 0;
  for (const v1::ReservedBlock& block : messages.response.blocks()) {
    const size_t index = i++;
    const bool in_range = index < keys_.size();
    if (in_range) reserved->blocks_[keys_[index].place].state = WithoutSlot(block.state());
    if (block.state() != v1::ReservedBlock::RESERVED) continue;
    const auto slot = in_range ? memory_.Write(block.offset(), keys_[index].length) : std::nullopt;
    if (!reached || !slot) {
      unusable.push_back(block.reservation_id());
      continue;
    }
    const AskedKey& key = keys_[index];
    reserved->blocks_[key.place] = {.state = ReservedBlocks::State::kReserved,
                                    .slot = *slot,
                                    .length = key.length,
                                    .offset = block.offset(),
                                    .reservation_id = block.reservation_id()};
    reserved->reservation_ids_.push_back(block.reservation_id());
  }
  link->Release(connection_.get(), ReleaseQueue::Kind::kReservation, unusable);
  link->Count([&](ClientStats* stats) { stats->reserved_blocks += reserved->reserved(); });
  if (reserved->reserved() == 0) return;
  reserved->link_ = link;
  reserved->connection_ = connection_;
  reserved->keep_ = memory_.keep();
  reserved->commit_timeout_ = commit_timeout_;
}

bool CommitCall::Fill(const std::shared_ptr<Connection>& connection) {
  if (connection != blocks_.connection_) return false;
  messages.request.set_session_token(connection->session()->token());
  for (const ReservedBlocks::Block& block : blocks_.blocks_) {
    if (!block.reservation_id) continue;
    if (block.use != ReservedBlocks::SlotUse::kUnused) bytes_ += block.length;
    if (const std::optional<PayloadSum> sum = block.sum()) {
      messages.request.add_summed_reservation_ids(*block.reservation_id);
      messages.request.add_sums(sum->hi);
      messages.request.add_sums(sum->lo);
    } else if (block.use != ReservedBlocks::SlotUse::kUnused) {
      messages.request.add_reservation_ids(*block.reservation_id);
    } else {
      messages.request.add_unwritten_reservation_ids(*block.reservation_id);
    }
  }
  messages.request.set_step(step_);
  if (durable_) {
    messages.request.set_durable(true);
    messages.request.set_timeout_ms(disk_timeout_ms_);
  }
  return true;
}

size_t CommitCall::Finish(const std::shared_ptr<AgentLink>& link, CallOutcome outcome) {
  const size_t written = static_cast<size_t>(messages.request.reservation_ids_size()) +
                         static_cast<size_t>(messages.request.summed_reservation_ids_size());
  const auto unwritten = static_cast<size_t>(messages.request.unwritten_reservation_ids_size());
  const bool answered = outcome == CallOutcome::kAnswered;
  const size_t committed =
      answered ? std::min<size_t>(messages.response.committed_blocks(), written) : 0;
  const size_t on_disk = std::min<size_t>(messages.response.durable_blocks(), committed);
  const size_t given_back =
      answered ? std::min<size_t>(messages.response.unwritten_blocks(), unwritten) : 0;
  link->Count([&](ClientStats* stats) {
    stats->committed_blocks += committed;
    // The answer does not say which blocks failed, so each counts with the mean length of the put.
    if (written > 0) stats->committed_bytes += bytes_ * committed / written;
    stats->unwritten_blocks += unwritten;
  });
  if (committed + given_back == blocks_.reserved()) {
    blocks_.ForgetSlots();
  } else {
    // The answer does not say which blocks failed, and giving back a committed one does nothing.
    blocks_.Release();
  }
  return durable_ ? on_disk : committed;
}

size_t ReservedBlocks::Commit(const CommitOptions& options) {
  const std::shared_ptr<AgentLink> link = link_;
  if (link == nullptr) return 0;
  // This object keeps the states, for the caller to read; the call gets the slots.
  std::vector<Block> states = blocks_;
  Forget(&states);
  CommitCall call(std::move(*this), options);
  blocks_ = std::move(states);
  return RunCall(link, &call);
}

}  // namespace kvtier
