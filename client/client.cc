#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent_link.h"
#include "client/call.h"
#include "client/delete_call.h"
#include "client/fork_guard.h"
#include "client/match_call.h"
#include "client/onboard_call.h"
#include "client/prefetch_call.h"
#include "client/reserve_call.h"
#include "client/residency_lookup.h"
#include "client/submitted_calls.h"
#include "client/take_slots_call.h"
#include "client/ticket_calls.h"
#include "client/worker_steps.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

constexpr size_t kMaxSocketPathBytes = 107;  // sockaddr_un::sun_path, less its NUL.

absl::Status CheckPositive(const char* field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", absl::FormatDuration(value), "; must be positive"));
}

absl::Status CheckTimeout(const std::optional<absl::Duration>& timeout) {
  if (!timeout || *timeout >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("timeout is ", absl::FormatDuration(*timeout), "; must not be negative"));
}

// Returns what was matched of a run.
MatchedPrefix PrefixOf(const MatchedSequence& run) {
  MatchedPrefix prefix{.blocks = run.blocks, .local_blocks = run.local_blocks};
  for (const std::optional<Tier>& tier : run.tiers) prefix.tiers.push_back(*tier);
  return prefix;
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  const size_t path =
      socket_dir.size() + 1 +
      std::max(sizeof(wire::kControlSocketName), sizeof(wire::kDescriptorSocketName)) - 1;
  if (socket_dir.empty() || path > kMaxSocketPathBytes ||
      socket_dir.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("socket_dir is \"", socket_dir,
                                                   "\"; with a socket's name it makes ", path,
                                                   " bytes and may make ", kMaxSocketPathBytes));
  }
  if (tenant.empty() || tenant.size() > wire::kMaxTenantBytes ||
      tenant.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("tenant has ", tenant.size(),
                                                   " bytes; must be 1 to ", wire::kMaxTenantBytes,
                                                   " without NUL"));
  }
  KVT_RETURN_IF_ERROR(CheckPositive("default_timeout", default_timeout));
  KVT_RETURN_IF_ERROR(CheckPositive("connect_timeout", connect_timeout));
  return breaker.Validate();
}

struct Client::State {
  explicit State(const ClientOptions& options)
      : default_timeout(options.default_timeout),
        link(new AgentLink({.session = {.socket_dir = options.socket_dir,
                                        .tenant = options.tenant,
                                        .tenant_key = TenantKey::FromSecret(options.tenant_secret),
                                        .gpu_by_device = options.gpu_by_device},
                            .connect_timeout = options.connect_timeout,
                            .breaker = options.breaker}),
             DeleteUnlessForked()),
        submitted(kMaxSubmitted) {}

  absl::StatusOr<absl::Duration> Timeout(const std::optional<absl::Duration>& asked) const {
    KVT_RETURN_IF_ERROR(CheckTimeout(asked));
    return std::min(asked.value_or(default_timeout), kMaxTimeout);
  }
  absl::Status Check(SpaceHandle space, std::span<const EngineKey> keys) const {
    if (!InForkedChild() && static_cast<size_t>(space) >= link->spaces().size()) {
      return absl::InvalidArgumentError(absl::StrCat("space handle ", static_cast<uint32_t>(space),
                                                     " was not given by this client"));
    }
    if (keys.size() > kMaxKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat(keys.size(), " keys in one call; must be at most ", kMaxKeys));
    }
    return absl::OkStatus();
  }

  absl::Status Check(std::span<const KeySequence> sequences) const {
    if (sequences.empty() || sequences.size() > kMaxSequences) {
      return absl::InvalidArgumentError(
          absl::StrCat(sequences.size(), " sequences in one call; must be 1 to ", kMaxSequences));
    }
    size_t keys = 0;
    for (const KeySequence& sequence : sequences) {
      KVT_RETURN_IF_ERROR(Check(sequence.space, sequence.keys));
      keys += sequence.keys.size();
    }
    if (keys > kMaxKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat(keys, " keys in one call; must be at most ", kMaxKeys));
    }
    return absl::OkStatus();
  }
  absl::Status CheckReserve(std::span<const KeySequence> sequences,
                            const ReserveOptions& options) const {
    if (options.parent) {
      return absl::InvalidArgumentError("parent is given beside sequences, which have their own");
    }
    return Check(sequences);
  }

  const absl::Duration default_timeout;
  const std::shared_ptr<AgentLink> link;
  SubmittedCalls submitted;
  WorkerSteps steps;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Open(const ClientOptions& options) {
  KVT_RETURN_IF_ERROR(options.Validate());
  std::shared_ptr<State> state(new State(options), DeleteUnlessForked());
  state->link->Start();
  return std::unique_ptr<Client>(new Client(std::move(state)));
}

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  if (InForkedChild()) return;  // Its calls and threads are the parent's.
  state_->submitted.CancelAndWait();
  state_->link->Stop();
}

absl::StatusOr<SpaceHandle> Client::RegisterSpace(const SpaceSpec& spec) {
  if (InForkedChild()) {
    KVT_RETURN_IF_ERROR(spec.Validate());
    return SpaceHandle{0};
  }
  KVT_ASSIGN_OR_RETURN(const size_t index, state_->link->spaces().Add(spec));
  // Not registered in time, or not at all: the link's thread goes on trying.
  if (const std::shared_ptr<Connection> connection = state_->link->Admit(state_->default_timeout);
      connection != nullptr && !connection->FindSpace(index)) {
    const absl::Time began = MonotonicClock().Now();
    const absl::Status status = connection->RegisterSpace(index, spec, state_->default_timeout);
    const CallEnd end = {.name = "register_space",
                         .timeout = state_->default_timeout,
                         .took = MonotonicClock().Now() - began,
                         .status = status};
    if (state_->link->Ended(connection, end) != CallOutcome::kAnswered) state_->link->Wake();
  }
  return static_cast<SpaceHandle>(index);
}

absl::StatusOr<SpaceLimits> Client::Limits(SpaceHandle space) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, {}));
  return state_->link->LimitsOf(static_cast<size_t>(space));
}

absl::Status Client::Residences(SpaceHandle space, std::span<const EngineKey> keys,
                                std::span<Residence> residences) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, keys));
  if (residences.size() != keys.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("residences has ", residences.size(), " entries for ", keys.size(), " keys"));
  }
  const AgentLink::Residency residency = state_->link->residency();
  if (residency.view == nullptr) {
    const Residence all = residency.connected ? Residence::kPerhaps : Residence::kAbsent;
    std::fill(residences.begin(), residences.end(), all);
    return absl::OkStatus();
  }
  const BlockNamer& namer = state_->link->spaces().NamerOf(static_cast<size_t>(space));
  if (!LookUpAll(*residency.view, namer, keys, residences)) state_->link->RenewResidency();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Client::ResidentRun(SpaceHandle space,
                                           std::span<const EngineKey> keys) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, keys));
  const AgentLink::Residency residency = state_->link->residency();
  if (residency.view == nullptr) return residency.connected ? keys.size() : 0;
  const BlockNamer& namer = state_->link->spaces().NamerOf(static_cast<size_t>(space));
  const ResidentKeys resident = LookUpRun(*residency.view, namer, keys);
  if (resident.retired) state_->link->RenewResidency();
  return resident.count;
}

absl::StatusOr<OnboardedBlocks> Client::Onboard(SpaceHandle space, std::span<const EngineKey> keys,
                                                const OnboardOptions& options) {
  const KeySequence run{.space = space, .keys = keys};
  KVT_ASSIGN_OR_RETURN(std::vector<OnboardedBlocks> all, Onboard(std::span(&run, 1), options));
  return std::move(all[0]);
}

absl::StatusOr<std::vector<OnboardedBlocks>> Client::Onboard(std::span<const KeySequence> sequences,
                                                             const OnboardOptions& options) {
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  OnboardCall call(sequences, options, timeout);
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  MatchCall call(sequences, options, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<ReservedBlocks> Client::Reserve(SpaceHandle space, std::span<const EngineKey> keys,
                                               const ReserveOptions& options) {
  const KeySequence run{.space = space, .keys = keys, .parent = options.parent};
  ReserveOptions rest = options;
  rest.parent.reset();
  return Reserve(std::span(&run, 1), rest);
}

absl::StatusOr<ReservedBlocks> Client::Reserve(std::span<const KeySequence> sequences,
                                               const ReserveOptions& options) {
  KVT_RETURN_IF_ERROR(state_->CheckReserve(sequences, options));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  ReserveCall call(sequences, options, timeout, state_->default_timeout);
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  if (options.redemptions < 1 || options.redemptions > kMaxRedemptions) {
    return absl::InvalidArgumentError(
        absl::StrCat("redemptions is ", options.redemptions, "; must be 1 to ", kMaxRedemptions));
  }
  if (options.lifetime < absl::Milliseconds(1) || options.lifetime > kMaxTicketLifetime) {
    return absl::InvalidArgumentError(
        absl::StrCat("lifetime is ", absl::FormatDuration(options.lifetime), "; must be 1ms to ",
                     absl::FormatDuration(kMaxTicketLifetime)));
  }
  TakeTicketCall call(sequences, options, timeout);
  return RunCall(state_->link, &call);
}

absl::StatusOr<std::vector<OnboardedBlocks>> Client::Redeem(
    const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
    const std::optional<absl::Duration>& timeout) {
  if (spaces.empty() || spaces.size() > kMaxSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat(spaces.size(), " spaces in one call; must be 1 to ", kMaxSequences));
  }
  for (const SpaceHandle space : spaces) KVT_RETURN_IF_ERROR(state_->Check(space, {}));
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  PrefetchCall call(sequences, options, timeout);
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<OnboardCall>(sequences, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<MatchCall>(sequences, options, timeout);
  return SubmitCall(state_->link, &state_->submitted, &call, std::move(done));
}

absl::Status Client::SubmitReserve(SpaceHandle space, std::span<const EngineKey> keys,
                                   const ReserveOptions& options,
                                   absl::AnyInvocable<void(ReservedBlocks)> done) {
  const KeySequence run{.space = space, .keys = keys, .parent = options.parent};
  ReserveOptions rest = options;
  rest.parent.reset();
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
  KVT_RETURN_IF_ERROR(state_->Check(sequences));
  KVT_ASSIGN_OR_RETURN(const absl::Duration timeout, state_->Timeout(options.timeout));
  auto call = std::make_unique<PrefetchCall>(sequences, options, timeout);
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

uint64_t Client::BeginStep() {
  const std::shared_ptr<const GpuMemory> gpu = gpu_memory();
  return gpu == nullptr ? 0 : state_->steps.Begin(gpu->steps);
}

void Client::EndStep(uint64_t step) {
  if (!InForkedChild()) state_->steps.End(step);
}

uint64_t Client::BeginCopy() {
  const std::shared_ptr<const GpuMemory> gpu = gpu_memory();
  return gpu == nullptr ? 0 : state_->steps.BeginCopy(gpu->steps);
}

void Client::EndCopy(uint64_t step) {
  if (!InForkedChild()) state_->steps.EndCopy(step);
}

HostMemory Client::host_memory() const { return state_->link->host_memory(); }

std::shared_ptr<const GpuMemory> Client::gpu_memory() const { return state_->link->gpu_memory(); }

absl::Status Client::Ping(absl::Duration timeout) {
  KVT_RETURN_IF_ERROR(CheckPositive("timeout", timeout));
  const std::shared_ptr<Connection> connection = state_->link->Admit(timeout);
  if (connection == nullptr) return absl::UnavailableError("no agent, or the breaker is open");
  const absl::Time began = MonotonicClock().Now();
  const absl::Status status = connection->Ping(std::min(timeout, kMaxTimeout));
  state_->link->Ended(connection, {.name = "ping",
                                   .timeout = timeout,
                                   .took = MonotonicClock().Now() - began,
                                   .status = status});
  return status;
}

bool Client::connected() const { return state_->link->connected(); }

ClientStats Client::Stats() const { return state_->link->Stats(); }

}  // namespace kvtier
