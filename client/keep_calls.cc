#include "client/keep_calls.h"

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/client_state.h"
#include "client/delete_call.h"
#include "client/onboard_answer.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Returns the limit; one that this client does not know, of a newer agent, is taken as the node's.
KeepLimit LimitFrom(v1::KeepLimit wire) {
  switch (wire) {
    case v1::KEEP_LIMIT_NONE:
      return KeepLimit::kNone;
    case v1::KEEP_LIMIT_TENANT_BYTES:
      return KeepLimit::kTenantBytes;
    case v1::KEEP_LIMIT_TENANT_BLOCKS:
      return KeepLimit::kTenantBlocks;
    case v1::KEEP_LIMIT_TENANT_PREFIXES:
      return KeepLimit::kTenantPrefixes;
    case v1::KEEP_LIMIT_NODE_PREFIXES:
      return KeepLimit::kNodePrefixes;
    default:
      return KeepLimit::kNodeBlocks;
  }
}

KeptUse UseFrom(const v1::KeptUse& wire) {
  return {.prefixes = wire.prefixes(), .blocks = wire.blocks(), .bytes = wire.bytes()};
}

}  // namespace

KeepCall::KeepCall(std::span<const KeySequence> sequences, absl::Duration ttl,
                   absl::Duration timeout)
    : sequences_(sequences), asked_(AskedOf(sequences)) {
  messages.timeout = timeout;
  messages.request.set_timeout_ms(AgentTimeoutMs(timeout));
  messages.request.set_ttl_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(ttl)));
}

KeptPrefix KeepCall::Finish(const std::shared_ptr<AgentLink>& /*link*/, CallOutcome outcome) {
  const bool answered = outcome == CallOutcome::kAnswered;
  KeptPrefix kept;
  kept.sequences.resize(asked_.size());
  for (size_t i = 0; i < asked_.size(); ++i) {
    KeptPrefix::Sequence& sequence = kept.sequences[i];
    if (!answered) sequence.missed = MissReasonOf(outcome);
    if (!answered || static_cast<int>(i) >= messages.response.sequences_size()) continue;
    const v1::KeptSequence& wire = messages.response.sequences(static_cast<int>(i));
    for (const uint32_t index : wire.indices()) {
      if (index < asked_[i].keys) sequence.key_indices.push_back(index);
    }
    sequence.missed = MissReasonFrom(wire.missed());
  }
  kept.answered = answered;
  if (!answered) return kept;
  kept.id = messages.response.kept_id();
  kept.limit = LimitFrom(messages.response.limit());
  kept.ttl_left = absl::Milliseconds(messages.response.ttl_left_ms());
  return kept;
}

KeptList ListKeptCall::Finish(const std::shared_ptr<AgentLink>& /*link*/, CallOutcome outcome) {
  if (outcome != CallOutcome::kAnswered) return {};
  KeptList list{.answered = true};
  for (const v1::KeptPrefix& wire : messages.response.prefixes()) {
    list.prefixes.push_back({.id = wire.id(),
                             .blocks = wire.blocks(),
                             .bytes = wire.bytes(),
                             .ttl_left = absl::Milliseconds(wire.ttl_left_ms())});
  }
  list.used = UseFrom(messages.response.used());
  list.quota = UseFrom(messages.response.quota());
  return list;
}

absl::StatusOr<KeptPrefix> Client::Keep(std::span<const KeySequence> sequences,
                                        const KeepOptions& options) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  if (options.ttl < kMinTtl || options.ttl > kMaxTtl) {
    return absl::InvalidArgumentError(absl::StrCat("ttl is ", absl::FormatDuration(options.ttl),
                                                   "; must be ", absl::FormatDuration(kMinTtl),
                                                   " to ", absl::FormatDuration(kMaxTtl)));
  }
  KeepCall call(taken, options.ttl, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<KeptList> Client::ListKept(const std::optional<absl::Duration>& timeout) {
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  ListKeptCall call(allowed);
  return RunCall(state_->link, &call);
}

absl::StatusOr<std::optional<size_t>> Client::EndKept(
    uint64_t id, const std::optional<absl::Duration>& timeout) {
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  EndKeptCall call(id, allowed);
  return RunCall(state_->link, &call);
}

absl::StatusOr<DeletedBlocks> Client::DropPrefix(std::span<const KeySequence> sequences,
                                                 const std::optional<absl::Duration>& timeout) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  DeleteCall call(sequences, allowed);
  call.messages.request.set_descendants(true);
  return RunCall(state_->link, &call);
}

}  // namespace kvtier
