// Implements the client's calls about blocks: those that wait, and those that are submitted.
#include <algorithm>
#include <utility>
#include <vector>

#include "client/advise_call.h"
#include "client/call.h"
#include "client/client.h"
#include "client/client_state.h"
#include "client/delete_call.h"
#include "client/match_call.h"
#include "client/onboard_call.h"
#include "client/onboard_parts_call.h"
#include "client/pending_stream_call.h"
#include "client/prefetch_call.h"
#include "client/reserve_call.h"
#include "client/take_slots_call.h"
#include "client/ticket_calls.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Returns the matched blocks of a run as a prefix.
MatchedPrefix PrefixOf(const MatchedSequence& run) {
  MatchedPrefix prefix{.blocks = run.blocks, .local_blocks = run.local_blocks};
  for (const std::optional<Tier>& tier : run.tiers) prefix.tiers.push_back(*tier);
  return prefix;
}

// Returns the run of these keys, with the parent and the lengths moved out of `options`.
KeySequence TakeRun(SpaceHandle space, std::span<const EngineKey> keys, ReserveOptions* options) {
  return {.space = space,
          .keys = keys,
          .parent = std::exchange(options->parent, std::nullopt),
          .lengths = std::exchange(options->lengths, {})};
}

// Returns the leading blocks that all of these runs of the same keys have, with the farthest tier
// of each.
MatchedPrefix CommonPrefixOf(std::span<const MatchedSequence> runs) {
  MatchedPrefix common = PrefixOf(runs[0]);
  for (const MatchedSequence& run : runs.subspan(1)) {
    common.blocks = std::min(common.blocks, run.blocks);
    common.local_blocks = std::min(common.local_blocks, run.local_blocks);
    common.tiers.resize(std::min(common.tiers.size(), run.tiers.size()));
    for (size_t i = 0; i < common.tiers.size(); ++i) {
      common.tiers[i] = std::max(common.tiers[i], *run.tiers[i]);
    }
  }
  return common;
}

}  // namespace

absl::StatusOr<OnboardedBlocks> Client::Onboard(SpaceHandle space, std::span<const EngineKey> keys,
                                                const OnboardOptions& options) {
  const KeySequence run{.space = space, .keys = keys};
  KVT_ASSIGN_OR_RETURN(std::vector<OnboardedBlocks> all, Onboard(std::span(&run, 1), options));
  return std::move(all[0]);
}

absl::StatusOr<std::vector<OnboardedBlocks>> Client::Onboard(std::span<const KeySequence> sequences,
                                                             const OnboardOptions& options) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  OnboardCall call(taken, options, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<MatchedPrefix> Client::Match(SpaceHandle space, std::span<const EngineKey> keys,
                                            const MatchOptions& options) {
  const KeySequence run{.space = space, .keys = keys};
  KVT_ASSIGN_OR_RETURN(const std::vector<MatchedSequence> all, Match(std::span(&run, 1), options));
  return PrefixOf(all[0]);
}

absl::StatusOr<std::vector<MatchedSequence>> Client::Match(std::span<const KeySequence> sequences,
                                                           const MatchOptions& options) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  MatchCall call(taken, options, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<MatchedPrefix> Client::MatchGroup(std::span<const SpaceHandle> spaces,
                                                 std::span<const EngineKey> keys,
                                                 const MatchOptions& options) {
  KVT_RETURN_IF_ERROR(state_->Check(spaces));
  std::vector<KeySequence> ranks;
  for (const SpaceHandle space : spaces) ranks.push_back({.space = space, .keys = keys});
  KVT_ASSIGN_OR_RETURN(const std::vector<MatchedSequence> all, Match(ranks, options));
  return CommonPrefixOf(all);
}

absl::StatusOr<ReservedBlocks> Client::Reserve(SpaceHandle space, std::span<const EngineKey> keys,
                                               const ReserveOptions& options) {
  ReserveOptions rest = options;
  const KeySequence run = TakeRun(space, keys, &rest);
  return Reserve(std::span(&run, 1), rest);
}

absl::StatusOr<ReservedBlocks> Client::Reserve(std::span<const KeySequence> sequences,
                                               const ReserveOptions& options) {
  KVT_RETURN_IF_ERROR(state_->CheckReserve(sequences, options));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  ReserveCall call(sequences, options, timeout, state_->default_timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<size_t> Client::Advise(std::span<const KeySequence> sequences,
                                      const std::optional<absl::Duration>& timeout) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  AdviseCall call(sequences, allowed);
  return RunCall(state_->link, &call);
}

absl::StatusOr<DeletedBlocks> Client::Delete(std::span<const KeySequence> sequences,
                                             const std::optional<absl::Duration>& timeout) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  DeleteCall call(sequences, allowed);
  return RunCall(state_->link, &call);
}

absl::StatusOr<PinTicket> Client::TakeTicket(std::span<const KeySequence> sequences,
                                             const TicketOptions& options) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  KVT_RETURN_IF_ERROR(State::CheckTicket(options));
  TakeTicketCall call(taken, options, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<std::vector<OnboardedBlocks>> Client::Redeem(
    const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
    const std::optional<absl::Duration>& timeout) {
  KVT_RETURN_IF_ERROR(state_->Check(spaces));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  RedeemCall call(id, rank, spaces, allowed);
  return RunCall(state_->link, &call);
}

void Client::ReleaseTicket(const TicketId& id) { state_->link->ReleaseTicket(id); }

absl::StatusOr<GrantedSlots> Client::TakeSlots(SpaceHandle space, uint32_t slots) {
  KVT_RETURN_IF_ERROR(state_->Check(space, {}));
  if (slots == 0) return absl::InvalidArgumentError("slots is 0; must be positive");
  TakeSlotsCall call(space, slots, state_->default_timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<size_t> Client::Prefetch(SpaceHandle space, std::span<const EngineKey> keys,
                                        const MatchOptions& options) {
  const KeySequence run{.space = space, .keys = keys};
  return Prefetch(std::span(&run, 1), options);
}

absl::StatusOr<size_t> Client::Prefetch(std::span<const KeySequence> sequences,
                                        const MatchOptions& options) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  PrefetchCall call(taken, options, timeout);
  return RunCall(state_->link, &call);
}

absl::Status Client::SubmitOnboard(SpaceHandle space, std::span<const EngineKey> keys,
                                   const OnboardOptions& options,
                                   absl::AnyInvocable<void(OnboardedBlocks)> done) {
  const KeySequence run{.space = space, .keys = keys};
  return SubmitOnboard(std::span(&run, 1), options,
                       [done = std::move(done)](std::vector<OnboardedBlocks> all) mutable {
                         done(std::move(all[0]));
                       });
}

absl::Status Client::SubmitOnboard(std::span<const KeySequence> sequences,
                                   const OnboardOptions& options,
                                   absl::AnyInvocable<void(std::vector<OnboardedBlocks>)> done) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<OnboardCall>(taken, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitOnboardParts(
    std::span<const KeySequence> sequences, const OnboardOptions& options,
    absl::AnyInvocable<void(OnboardedPart)> on_part,
    absl::AnyInvocable<void(std::vector<OnboardedInParts>)> done) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  if (options.target != OnboardTarget::kHost) {
    return absl::InvalidArgumentError(
        "target is the GPU pool; must be host memory where an onboard comes in parts");
  }
  auto call = std::make_unique<OnboardPartsCall>(taken, options, timeout, std::move(on_part));
  return SubmitCall<OnboardPartsCall, PendingStreamCall<OnboardPartsCall>>(
      state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitMatch(SpaceHandle space, std::span<const EngineKey> keys,
                                 const MatchOptions& options,
                                 absl::AnyInvocable<void(MatchedPrefix)> done) {
  const KeySequence run{.space = space, .keys = keys};
  return SubmitMatch(std::span(&run, 1), options,
                     [done = std::move(done)](const std::vector<MatchedSequence>& all) mutable {
                       done(PrefixOf(all[0]));
                     });
}

absl::Status Client::SubmitMatch(std::span<const KeySequence> sequences,
                                 const MatchOptions& options,
                                 absl::AnyInvocable<void(std::vector<MatchedSequence>)> done) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<MatchCall>(taken, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitReserve(SpaceHandle space, std::span<const EngineKey> keys,
                                   const ReserveOptions& options,
                                   absl::AnyInvocable<void(ReservedBlocks)> done) {
  ReserveOptions rest = options;
  const KeySequence run = TakeRun(space, keys, &rest);
  return SubmitReserve(std::span(&run, 1), rest, std::move(done));
}

absl::Status Client::SubmitReserve(std::span<const KeySequence> sequences,
                                   const ReserveOptions& options,
                                   absl::AnyInvocable<void(ReservedBlocks)> done) {
  KVT_RETURN_IF_ERROR(state_->CheckReserve(sequences, options));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<ReserveCall>(sequences, options, timeout, state_->default_timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitPrefetch(SpaceHandle space, std::span<const EngineKey> keys,
                                    const MatchOptions& options,
                                    absl::AnyInvocable<void(size_t)> done) {
  const KeySequence run{.space = space, .keys = keys};
  return SubmitPrefetch(std::span(&run, 1), options, std::move(done));
}

absl::Status Client::SubmitPrefetch(std::span<const KeySequence> sequences,
                                    const MatchOptions& options,
                                    absl::AnyInvocable<void(size_t)> done) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<PrefetchCall>(taken, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitCommit(ReservedBlocks&& blocks, absl::AnyInvocable<void(size_t)> done,
                                  const CommitOptions& options) {
  KVT_RETURN_IF_ERROR(CheckTimeout(options.timeout));
  const std::shared_ptr<AgentLink> link = CommitCall::LinkOf(blocks);
  if (link == nullptr) {
    done(0);  // Nothing was reserved.
    return absl::OkStatus();
  }
  auto call = std::make_unique<CommitCall>(std::move(blocks), options);
  const absl::Status status = SubmitCall(link, &state_->submitted, &call, std::move(done));
  if (!status.ok()) blocks = call->TakeBlocks();
  return status;
}

absl::Status Client::SubmitAdvise(std::span<const KeySequence> sequences,
                                  const std::optional<absl::Duration>& timeout,
                                  absl::AnyInvocable<void(size_t)> done) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  auto call = std::make_unique<AdviseCall>(sequences, allowed);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitDelete(std::span<const KeySequence> sequences,
                                  const std::optional<absl::Duration>& timeout,
                                  absl::AnyInvocable<void(DeletedBlocks)> done) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  auto call = std::make_unique<DeleteCall>(sequences, allowed);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitTakeTicket(std::span<const KeySequence> sequences,
                                      const TicketOptions& options,
                                      absl::AnyInvocable<void(PinTicket)> done) {
  KVT_ASSIGN_OR_RETURN(const std::vector<KeySequence> taken, state_->Taken(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  KVT_RETURN_IF_ERROR(State::CheckTicket(options));
  auto call = std::make_unique<TakeTicketCall>(taken, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitRedeem(const TicketId& id, uint32_t rank,
                                  std::span<const SpaceHandle> spaces,
                                  const std::optional<absl::Duration>& timeout,
                                  absl::AnyInvocable<void(std::vector<OnboardedBlocks>)> done) {
  KVT_RETURN_IF_ERROR(state_->Check(spaces));
  KVT_ASSIGN_OR_RETURN(const absl::Duration allowed, state_->Timeout(timeout));
  auto call = std::make_unique<RedeemCall>(id, rank, spaces, allowed);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

}  // namespace kvtier
