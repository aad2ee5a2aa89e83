#include "client/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/client_state.h"
#include "client/fork_guard.h"
#include "client/residency_lookup.h"
#include "core/status_macros.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

constexpr size_t kMaxSocketPathBytes = 107;  // Size of sockaddr_un::sun_path, less its NUL.

absl::Status CheckPositive(const char* field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", absl::FormatDuration(value), "; must be positive"));
}

absl::Status CheckName(const char* field, const std::string& name) {
  if (!name.empty() && name.size() <= wire::kMaxTenantBytes &&
      name.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, " has ", name.size(), " bytes; must be 1 to ", wire::kMaxTenantBytes, " without NUL"));
}

}  // namespace

absl::Status ClientOptions::Validate() const {
  const size_t path =
      socket_dir.size() + 1 +
      std::max(sizeof(wire::kControlSocketName), sizeof(wire::kDescriptorSocketName)) - 1;
  if (socket_dir.empty() || path > kMaxSocketPathBytes ||
      socket_dir.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_dir is \"", socket_dir, "\"; with a socket's name it has ", path,
                     " bytes and must have at most ", kMaxSocketPathBytes));
  }
  KVT_RETURN_IF_ERROR(CheckName("tenant", tenant));
  if (!group.empty()) KVT_RETURN_IF_ERROR(CheckName("group", group));
  if (group == tenant) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group is \"", group, "\", the tenant itself; leave it empty for the tenant's own blocks"));
  }
  KVT_RETURN_IF_ERROR(CheckPositive("default_timeout", default_timeout));
  KVT_RETURN_IF_ERROR(CheckPositive("connect_timeout", connect_timeout));
  return breaker.Validate();
}

absl::StatusOr<std::unique_ptr<Client>> Client::Open(const ClientOptions& options) {
  KVT_RETURN_IF_ERROR(options.Validate());
  std::shared_ptr<State> state(new State(options), DeleteUnlessForked());
  state->link->Start();
  return std::unique_ptr<Client>(new Client(std::move(state)));
}

Client::Client(std::shared_ptr<State> state) : state_(std::move(state)) {}

Client::~Client() {
  if (InForkedChild()) return;  // The calls and threads are the parent's.
  state_->submitted.CancelAndWait();
  state_->link->Stop();
}

absl::StatusOr<SpaceHandle> Client::RegisterSpace(const SpaceSpec& spec,
                                                  std::optional<absl::Duration> timeout) {
  const absl::Duration patience = timeout.value_or(state_->default_timeout);
  if (patience < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout is ", absl::FormatDuration(patience), "; must not be negative"));
  }
  if (InForkedChild()) {
    KVT_RETURN_IF_ERROR(spec.Validate());
    return SpaceHandle{0};
  }
  KVT_ASSIGN_OR_RETURN(const size_t index, state_->link->spaces().Add(spec));
  if (patience == absl::ZeroDuration()) {
    state_->link->Wake();
    return static_cast<SpaceHandle>(index);
  }
  // If the space is not registered in time, the link's thread goes on trying.
  if (const std::shared_ptr<Connection> connection = state_->link->Admit(patience);
      connection != nullptr && !connection->FindSpace(index)) {
    const absl::Time began = MonotonicClock().Now();
    const absl::Status status = connection->RegisterSpace(index, spec, patience);
    const CallEnd end = {.name = "register_space",
                         .timeout = patience,
                         .took = MonotonicClock().Now() - began,
                         .status = status};
    state_->link->Ended(connection, end);
    if (!status.ok()) state_->link->Wake();
  }
  return static_cast<SpaceHandle>(index);
}

absl::Status Client::UnregisterSpace(SpaceHandle space) {
  KVT_RETURN_IF_ERROR(state_->Check(space, {}));
  if (!InForkedChild()) state_->link->RemoveSpace(static_cast<size_t>(space));
  return absl::OkStatus();
}

absl::StatusOr<SpaceSpec> Client::SpecOf(SpaceHandle space) const {
  if (InForkedChild()) return absl::UnavailableError(kForkedText);
  std::optional<SpaceSpec> spec = state_->link->spaces().SpecOf(static_cast<size_t>(space));
  if (!spec) return State::NoSuchSpace(space);
  return *std::move(spec);
}

absl::StatusOr<absl::Duration> Client::TimeoutOf(
    const std::optional<absl::Duration>& timeout) const {
  return state_->Timeout(timeout);
}

absl::StatusOr<SpaceLimits> Client::Limits(SpaceHandle space) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, {}));
  return state_->link->LimitsOf(static_cast<size_t>(space));
}

absl::Status Client::Residences(SpaceHandle space, std::span<const EngineKey> keys,
                                std::span<Residence> residences) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, keys));
  if (residences.size() != keys.size()) {
    return absl::InvalidArgumentError(absl::StrCat("residences has ", residences.size(),
                                                   " entries for ", keys.size(),
                                                   " keys; must have one for each"));
  }
  const AgentLink::Residency residency = state_->link->residency();
  if (residency.view == nullptr) {
    const Residence all = residency.connected ? Residence::kPerhaps : Residence::kAbsent;
    std::fill(residences.begin(), residences.end(), all);
    return absl::OkStatus();
  }
  const auto namer = state_->link->spaces().NamerOf(static_cast<size_t>(space));
  if (namer == nullptr) {
    std::ranges::fill(residences, Residence::kAbsent);
  } else if (!LookUpAll(*residency.view, *namer, keys, residences)) {
    state_->link->RenewResidency();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Client::ResidentRun(SpaceHandle space,
                                           std::span<const EngineKey> keys) const {
  KVT_RETURN_IF_ERROR(state_->Check(space, keys));
  const AgentLink::Residency residency = state_->link->residency();
  if (residency.view == nullptr) return residency.connected ? keys.size() : 0;
  const auto namer = state_->link->spaces().NamerOf(static_cast<size_t>(space));
  if (namer == nullptr) return 0;
  const ResidentKeys resident = LookUpRun(*residency.view, *namer, keys);
  if (resident.retired) state_->link->RenewResidency();
  return resident.count;
}

uint64_t Client::BeginStep() {
  const std::shared_ptr<const GpuMemory> gpu = gpu_memory();
  return gpu == nullptr ? 0 : state_->steps.Begin(gpu->steps);
}

void Client::EndStep(uint64_t step) {
  if (!InForkedChild()) state_->steps.End(step);
}

HostMemory Client::host_memory() const { return state_->link->host_memory(); }

std::shared_ptr<const GpuMemory> Client::gpu_memory() const { return state_->link->gpu_memory(); }

absl::Status Client::Ping(absl::Duration timeout) {
  KVT_RETURN_IF_ERROR(CheckPositive("timeout", timeout));
  const std::shared_ptr<Connection> connection = state_->link->Admit(timeout);
  if (connection == nullptr) {
    return absl::UnavailableError(
        "there is no connection to the agent; see last_error of the statistics");
  }
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
