#include "agent/sessions/swapped_sequences.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {
namespace {

static_assert(sizeof(SwappedBlock) <= kBytesPerSwappedBlock);

absl::Status Full(const char* what, uint64_t used, uint64_t more, uint64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("swapping out: ", used, " ", what, " are out and ", more,
                   " more would exceed the limit of ", limit, "; swap some in, or release them"));
}

}  // namespace

absl::StatusOr<SwapId> SwappedSequences::Begin(const LeavingSequence& leaving,
                                               uint64_t quota_bytes) {
  const auto found = of_session_.find(leaving.session);
  const uint64_t of_session = found == of_session_.end() ? 0 : found->second;
  if (of_session >= kMaxSwappedPerSession) {
    return Full("sequences of a session", of_session, 1, kMaxSwappedPerSession);
  }
  if (sequences_.size() >= kMaxSwappedSequences) {
    return Full("sequences of a node", sequences_.size(), 1, kMaxSwappedSequences);
  }
  if (leaving.blocks > kMaxSwappedBlocks - blocks_) {
    return Full("blocks of a node", blocks_, leaving.blocks, kMaxSwappedBlocks);
  }
  Use& use = domains_[leaving.domain].use;
  const uint64_t bytes = leaving.blocks * leaving.slot_bytes;
  if (use.bytes + bytes > quota_bytes) {
    return Full("bytes of a tenant", use.bytes, bytes, quota_bytes);
  }
  const SwapId id{++numbered_};
  sequences_.emplace(id, Sequence{.of = leaving});
  ++of_session_[leaving.session];
  blocks_ += leaving.blocks;
  ++use.sequences;
  use.blocks += leaving.blocks;
  use.bytes += bytes;
  return id;
}

SwappedSequences::Sequences::iterator SwappedSequences::Moving(SwapId id) {
  const auto found = sequences_.find(id);
  KVT_CHECK(found != sequences_.end() && found->second.is_moving);
  return found;
}

SwappedSequences::Sequences::iterator SwappedSequences::Erase(Sequences::iterator found) {
  const LeavingSequence& of = found->second.of;
  Use& use = domains_.at(of.domain).use;
  --use.sequences;
  use.blocks -= of.blocks;
  use.bytes -= of.blocks * of.slot_bytes;
  blocks_ -= of.blocks;
  const auto session = of_session_.find(of.session);
  if (--session->second == 0) of_session_.erase(session);
  return sequences_.erase(found);
}

void SwappedSequences::GiveUp(SwapId id) { Erase(Moving(id)); }

bool SwappedSequences::Complete(SwapId id, std::vector<SwappedBlock> blocks) {
  const auto found = Moving(id);
  KVT_CHECK(blocks.size() == found->second.of.blocks);
  ++domains_.at(found->second.of.domain).counts.swapped_out;
  const bool is_wanted = found->second.is_wanted;
  StayOut(id, std::move(blocks));
  return is_wanted;
}

absl::StatusOr<ReturningSequence> SwappedSequences::BeginReturn(SessionId session, SwapId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || found->second.of.session != session || found->second.is_moving) {
    return absl::NotFoundError(
        absl::StrCat("swap_id: ", static_cast<uint64_t>(id),
                     "; the session has no sequence of this number swapped out"));
  }
  Sequence& sequence = found->second;
  sequence.is_moving = true;
  return ReturningSequence{.of = sequence.of, .blocks = std::exchange(sequence.blocks, {})};
}

void SwappedSequences::StayOut(SwapId id, std::vector<SwappedBlock> blocks) {
  const auto found = Moving(id);
  found->second.is_moving = false;
  found->second.blocks = std::move(blocks);
  if (!found->second.is_wanted) DropOne(found);
}

bool SwappedSequences::EndReturn(SwapId id) {
  const auto found = Moving(id);
  const bool is_wanted = found->second.is_wanted;
  Counts& counts = domains_.at(found->second.of.domain).counts;
  ++(is_wanted ? counts.swapped_in : counts.dropped);
  Erase(found);
  return is_wanted;
}

void SwappedSequences::Lose(SwapId id) {
  const auto found = Moving(id);
  ++domains_.at(found->second.of.domain).counts.dropped;
  Erase(found);
}

SwappedSequences::Sequences::iterator SwappedSequences::DropOne(Sequences::iterator found) {
  if (found->second.is_moving) {
    found->second.is_wanted = false;
    return ++found;
  }
  ++domains_.at(found->second.of.domain).counts.dropped;
  return Erase(found);
}

void SwappedSequences::Drop(SessionId session, std::span<const SwapId> ids) {
  for (const SwapId id : ids) {
    const auto found = sequences_.find(id);
    if (found != sequences_.end() && found->second.of.session == session) DropOne(found);
  }
}

void SwappedSequences::EndSession(SessionId session) {
  if (!of_session_.contains(session)) return;
  for (auto next = sequences_.begin(); next != sequences_.end();) {
    next = next->second.of.session == session ? DropOne(next) : ++next;
  }
}

SwappedSequences::Use SwappedSequences::UseOf(DomainId domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end() ? Use() : found->second.use;
}

SwappedSequences::Counts SwappedSequences::CountsOf(DomainId domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end() ? Counts() : found->second.counts;
}

void SwappedSequences::Audit() const {
  absl::flat_hash_map<DomainId, Use> uses;
  absl::flat_hash_map<SessionId, uint64_t> of_session;
  uint64_t blocks = 0;
  for (const auto& [id, sequence] : sequences_) {
    const LeavingSequence& of = sequence.of;
    KVT_CHECK(sequence.blocks.size() == (sequence.is_moving ? 0 : of.blocks));
    for (const SwappedBlock& block : sequence.blocks) {
      KVT_CHECK(block.slot && block.slot.domain() == of.domain);
      KVT_CHECK(block.slot.slot_bytes() == of.slot_bytes);
    }
    Use& use = uses[of.domain];
    ++use.sequences;
    use.blocks += of.blocks;
    use.bytes += of.blocks * of.slot_bytes;
    ++of_session[of.session];
    blocks += of.blocks;
  }
  KVT_CHECK(blocks == blocks_ && blocks <= kMaxSwappedBlocks);
  KVT_CHECK(sequences_.size() <= kMaxSwappedSequences);
  KVT_CHECK(of_session == of_session_);
  for (const auto& [domain, of] : domains_) KVT_CHECK(of.use == uses[domain]);
}

}  // namespace kvtier
