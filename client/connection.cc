#include "client/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/call_deadline.h"
#include "client/logger.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/convert.h"
#include "proto/link.h"
#include "proto/session_wire.h"

namespace kvtier {
namespace {

static_assert(ReleaseQueue::kMaxBatch <= convert::kMaxIdsPerRequest);

// Shortest wait of gRPC before it reconnects by itself, which matters only while the descriptor
// socket lives and the control socket does not. It is short, because both are on this machine.
constexpr int kMinReconnectMs = 20;
constexpr int kMaxReconnectMs = 500;

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& socket_dir) {
  grpc::ChannelArguments arguments = LinkArguments();
  // The channel is the session's own: one of an earlier session would bring its backoff along.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMinReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // A Unix socket needs no service config from DNS.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Without this gRPC keeps a copy of each request, to send it again by itself. The client decides
  // what is sent again, and the copy costs it a tenth of a call.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(absl::StrCat("unix:", socket_dir, "/", wire::kControlSocketName),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

Connection::Connection(const std::string& socket_dir, std::shared_ptr<const Session> session)
    : session_(std::move(session)), stub_(v1::Worker::NewStub(OpenChannel(socket_dir))) {}

absl::Status Connection::Ping(absl::Duration timeout) const {
  grpc::ClientContext context;
  SetTimeout(&context, timeout);
  v1::PingResponse response;
  return convert::FromGrpc(stub_->Ping(&context, v1::PingRequest(), &response));
}

absl::Status Connection::FlushReleases(absl::Duration timeout, absl::Time now) {
  while (releases_.IsDue(now)) {
    const ReleaseQueue::Batch batch = releases_.Take();
    grpc::ClientContext context;
    SetTimeout(&context, timeout);
    v1::ReleaseRequest request;
    request.set_session_token(session_->token());
    request.mutable_lease_ids()->Add(batch.lease_ids.begin(), batch.lease_ids.end());
    request.mutable_reservation_ids()->Add(batch.reservation_ids.begin(),
                                           batch.reservation_ids.end());
    request.mutable_slots()->Add(batch.slots.begin(), batch.slots.end());
    request.mutable_damaged_lease_ids()->Add(batch.damaged_lease_ids.begin(),
                                             batch.damaged_lease_ids.end());
    request.mutable_space_ids()->Add(batch.space_ids.begin(), batch.space_ids.end());
    request.mutable_swap_ids()->Add(batch.swap_ids.begin(), batch.swap_ids.end());
    for (const TicketId& ticket : batch.tickets) {
      request.add_tickets(ticket.data(), ticket.size());
    }
    v1::ReleaseResponse response;
    const absl::Status status = convert::FromGrpc(stub_->Release(&context, request, &response));
    if (!status.ok()) {
      // These ids were taken out a moment ago, so there is room for them. If another thread filled
      // the room meanwhile, a lease ends at its deadline and not earlier, which does no harm.
      releases_.Add(ReleaseQueue::Kind::kLease, batch.lease_ids, now);
      releases_.Add(ReleaseQueue::Kind::kReservation, batch.reservation_ids, now);
      releases_.Add(ReleaseQueue::Kind::kSlot, batch.slots, now);
      releases_.Add(ReleaseQueue::Kind::kDamaged, batch.damaged_lease_ids, now);
      releases_.Add(ReleaseQueue::Kind::kSpace, batch.space_ids, now);
      releases_.Add(ReleaseQueue::Kind::kSwap, batch.swap_ids, now);
      for (const TicketId& ticket : batch.tickets) releases_.AddTicket(ticket, now);
      return status;
    }
    // A space may have been refused because these took the room.
    if (!batch.space_ids.empty()) ForgetRefused();
  }
  return absl::OkStatus();
}

absl::Status Connection::RegisterSpace(size_t index, const SpaceSpec& spec,
                                       absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(&context, timeout);
  v1::RegisterSpaceRequest request;
  request.set_session_token(session_->token());
  *request.mutable_space() = convert::ToWire(spec);
  request.set_registration(index);
  v1::RegisterSpaceResponse response;
  const absl::Status status = convert::FromGrpc(stub_->RegisterSpace(&context, request, &response));
  if (!status.ok()) return status;
  if (response.space_digest() != convert::ToWire(spec.Digest())) {
    // An agent that does not know a field takes the space for one without it.
    return absl::InvalidArgumentError(absl::StrCat(
        "the agent does not know all of the space's fields (codec \"", spec.codec,
        "\", any_length ", spec.any_length ? "true" : "false", "); update the older of the two"));
  }
  SetSpace(index, {.id = response.space_id(),
                   .lengths = BlockLengths::Of(spec),
                   .limits = {.usable = true,
                              .slab_bytes = response.slab_bytes(),
                              .lengths = BlockLengths::Of(spec),
                              .slot_bytes = response.slot_bytes(),
                              .host_slots = response.host_slots(),
                              .staging_slots = response.staging_slots()}});
  return absl::OkStatus();
}

void Connection::RefuseSpace(size_t index, const absl::Status& why) {
  SetSpace(index, {.limits = {.why_not = absl::StrCat("the agent refuses it: ", why.message())}});
  {
    absl::MutexLock lock(&mu_);
    if (logged_refusal_ == why.message()) return;
    logged_refusal_ = std::string(why.message());
  }
  Log(LogLevel::kWarning,
      absl::StrCat("kvtier: the agent refuses a space, none of whose blocks is stored or found: ",
                   why.message()));
}

void Connection::ForgetRefused() {
  absl::MutexLock lock(&mu_);
  std::erase_if(spaces_, [](const auto& space) { return !space.second.limits.usable; });
}

void Connection::SetSpace(size_t index, const Space& space) {
  absl::MutexLock lock(&mu_);
  spaces_[index] = space;
}

std::optional<Connection::Space> Connection::FindSpace(size_t index) const {
  absl::MutexLock lock(&mu_);
  const auto found = spaces_.find(index);
  return found == spaces_.end() ? std::nullopt : std::optional(found->second);
}

bool Connection::ForgetSpace(size_t index, absl::Time now) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mu_);
    const auto found = spaces_.find(index);
    if (found == spaces_.end()) return false;
    id = found->second.id;
    spaces_.erase(found);
  }
  return id != 0 && releases_.Add(ReleaseQueue::Kind::kSpace, {&id, 1}, now).sooner;
}

void Connection::ForgetRemoved(const SpaceTable& spaces, absl::Time now) {
  std::vector<size_t> removed;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [index, space] : spaces_) {
      if (!spaces.Has(index)) removed.push_back(index);
    }
  }
  for (const size_t index : removed) ForgetSpace(index, now);
}

}  // namespace kvtier
