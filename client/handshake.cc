#include "client/handshake.h"

#include <algorithm>

#include "core/check.h"
#include "core/status_macros.h"
#include "proto/layout_digest.h"

namespace kvtier {
namespace {

absl::Status VersionMismatch(uint16_t version, uint16_t min_version) {
  return absl::FailedPreconditionError(
      absl::StrCat("version mismatch: the agent speaks session versions ", min_version, " to ",
                   version, ", this client ", wire::kMinSessionVersion, " to ",
                   wire::kSessionVersion, "; upgrade the older of the two"));
}

absl::Status LayoutMismatch(uint16_t spoken, uint64_t layout) {
  return absl::FailedPreconditionError(absl::StrCat(
      "layout mismatch: the agent lays out session version ", spoken, " as ",
      wire::LayoutText(layout), ", this client as ", wire::LayoutText(wire::LayoutDigest(spoken)),
      "; build both from the same sources"));
}

absl::Status UnknownTenant(const SessionOptions& options) {
  const std::string tenant =
      absl::StrCat("the agent knows no tenant \"", options.tenant, "\" with this secret");
  if (options.group.empty()) return absl::PermissionDeniedError(tenant);
  return absl::PermissionDeniedError(absl::StrCat(
      tenant, ", or no share group \"", options.group,
      "\" that it is a member of; on the node: ", "kvtier tenants describe ", options.group));
}

absl::Status WelcomeStatus(const wire::Welcome& welcome, const SessionOptions& options) {
  switch (welcome.code) {
    case wire::WelcomeCode::kOk:
      return absl::OkStatus();
    case wire::WelcomeCode::kVersionMismatch:
      return VersionMismatch(welcome.version, welcome.min_version);
    case wire::WelcomeCode::kUnknownTenant:
      return UnknownTenant(options);
    case wire::WelcomeCode::kTooManySessions:
      return absl::ResourceExhaustedError(
          "the agent has no session free for this tenant; close one, or try again later");
    case wire::WelcomeCode::kMalformed:
      return absl::FailedPreconditionError(
          "the agent could not read this client's Hello; build both from the same sources");
    case wire::WelcomeCode::kForbiddenUser:
      return absl::PermissionDeniedError(
          "the agent does not serve this user (SO_PEERCRED); add its uid to the agent's "
          "--allow_uids");
    case wire::WelcomeCode::kLayoutMismatch:
      return LayoutMismatch(wire::SpokenVersion(welcome.version, welcome.min_version),
                            welcome.layout);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the agent refused the session with unknown code ",
                   static_cast<uint16_t>(welcome.code), "; upgrade this client"));
}

}  // namespace

absl::StatusOr<Welcomed> ShakeHands(PacketSocket* socket, const SessionOptions& options,
                                    absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(const Received<wire::Challenge> challenge,
                       ReceivePacket<wire::Challenge>(socket, deadline));
  const wire::Challenge& theirs = challenge.packet;
  const uint16_t spoken = wire::SpokenVersion(theirs.version, theirs.min_version);
  if (spoken == 0) return VersionMismatch(theirs.version, theirs.min_version);
  wire::Hello hello{.layout = wire::LayoutDigest(spoken)};
  KVT_CHECK(options.tenant.size() <= wire::kMaxTenantBytes);
  std::copy(options.tenant.begin(), options.tenant.end(), hello.tenant.begin());
  KVT_CHECK(options.group.size() <= wire::kMaxTenantBytes);
  std::copy(options.group.begin(), options.group.end(), hello.group.begin());
  hello.proof = wire::SessionProof(options.session_key, theirs.nonce);
  // An agent that does not serve this user sends a Welcome that says so and hangs up before it is
  // sent a Hello. The send then fails, and the Welcome can still be read.
  const absl::Status sent = SendPacket(socket, hello, deadline);
  const absl::StatusOr<Received<wire::Welcome>> welcome =
      ReceivePacket<wire::Welcome>(socket, deadline);
  if (!welcome.ok()) return sent.ok() ? welcome.status() : sent;
  KVT_RETURN_IF_ERROR(WelcomeStatus(welcome->packet, options));
  const auto& token = welcome->packet.session_token;
  Welcomed welcomed{.token = std::string(token.begin(), token.end()),
                    .may_write = welcome->packet.may_write != 0};
  if (!options.group.empty()) welcomed.group_key = TenantKey{.bytes = welcome->packet.group_key};
  return welcomed;
}

}  // namespace kvtier
