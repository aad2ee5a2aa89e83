#include "cli/socket_findings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/table.h"
#include "proto/convert.h"
#include "proto/layout_digest.h"
#include "proto/session_packets.h"
#include "proto/socket_names.h"

namespace kvtier::cli {
namespace {

std::string ErrorText(int error) { return std::strerror(error); }

Finding DirectoryFinding(const NodeFacts& facts) {
  Finding finding{.check = "socket directory", .detail = facts.socket_dir};
  if (facts.directory_error == 0) return finding;
  finding.health = Health::kFail;
  finding.detail = absl::StrCat(facts.socket_dir, ": ", ErrorText(facts.directory_error));
  finding.remedy =
      facts.directory_error == ENOENT
          ? "start kvtier-agent on this node, or name its --socket_dir by --socket-dir; in a "
            "container, mount that directory of the host"
          : "let this user enter it: add the group that owns it to the worker's groups";
  return finding;
}

Finding SocketFinding(const NodeFacts& facts, const SocketFacts& socket) {
  Finding finding{.check = absl::StrCat("socket ", socket.name), .health = Health::kFail};
  if (!socket.exists) {
    finding.detail = absl::StrCat("not in ", facts.socket_dir);
    finding.remedy =
        SaysStarting(facts.status.status())
            ? "wait until the agent is ready: workers connect by themselves"
            : "start kvtier-agent with this --socket_dir; look into its log if it runs";
    return finding;
  }
  finding.detail =
      absl::StrFormat("owner %d:%d, mode %04o", socket.owner, socket.group, socket.mode);
  if (!socket.is_socket) {
    finding.detail += ", not a socket";
    finding.remedy = "remove the file and start the agent again";
    return finding;
  }
  switch (socket.connect_error) {
    case 0:
      finding.health = Health::kOk;
      finding.detail += ", answered";
      return finding;
    case ECONNREFUSED:
      finding.detail += ", nobody listens: an agent of before left it";
      finding.remedy = "start kvtier-agent; it takes the place of a dead one's sockets";
      return finding;
    case EACCES:
    case EPERM:
      if (socket.name == kAgentAdminSocketName) {
        finding.health = Health::kWarn;
        finding.detail += ", not for this user: spaces and machine are seen in part";
        finding.remedy = absl::StrCat("run kvtier doctor as root or as uid ", socket.owner);
        return finding;
      }
      finding.detail += ", this user may not write to it";
      finding.remedy = absl::StrCat("give the worker the group ", socket.group,
                                    " (supplementalGroups), or run it as uid ", socket.owner);
      return finding;
    default:
      finding.detail += absl::StrCat(", connect: ", ErrorText(socket.connect_error));
      finding.remedy = "look into the agent's log";
      return finding;
  }
}

bool Connects(const NodeFacts& facts, absl::string_view name) {
  return std::any_of(facts.sockets.begin(), facts.sockets.end(), [&](const SocketFacts& socket) {
    return socket.name == name && socket.exists && socket.connect_error == 0;
  });
}

// The uid as the agent's kernel shows it, and how it came about.
struct SeenUid {
  std::optional<uint32_t> uid;
  std::string text;
};

SeenUid SeenByAgent(const NodeFacts& facts) {
  // A uid that --uid names, or of the agent's own user namespace, is already as the agent sees it.
  if (facts.uid_named || facts.same_user_namespace.value_or(false)) {
    return {facts.uid, absl::StrCat("uid ", facts.uid)};
  }
  const std::optional<uint32_t> outside = OutsideUid(facts.uid, facts.uid_map);
  if (!outside) {
    return {std::nullopt, absl::StrCat("uid ", facts.uid,
                                       ", which this user namespace maps to no "
                                       "uid of the host")};
  }
  if (*outside == facts.uid) return {outside, absl::StrCat("uid ", facts.uid)};
  return {outside, absl::StrCat("uid ", facts.uid, " here, ", *outside,
                                " outside of this user "
                                "namespace")};
}

bool Allows(const v1::DescribeSharingResponse& sharing, uint32_t uid) {
  const auto& allowed = sharing.worker_uids();
  return std::find(allowed.begin(), allowed.end(), uid) != allowed.end();
}

// Returns whether the agent serves this user.
Finding UidFinding(const NodeFacts& facts) {
  Finding finding{.check = "uid"};
  const SeenUid seen = SeenByAgent(facts);
  const auto& allowed = facts.sharing->worker_uids();
  const std::string list = absl::StrJoin(allowed, ",");
  finding.detail = absl::StrCat(seen.text, "; the agent has --allow_uids=", list);
  if (seen.uid && Allows(*facts.sharing, *seen.uid)) return finding;
  // This process is an operator's and no worker: only a worker's own uid tells.
  if (!facts.uid_named && facts.uid == 0) {
    finding.health = Health::kWarn;
    finding.remedy = "name the worker's uid by --uid, or run kvtier doctor in its container";
    return finding;
  }
  finding.health = Health::kFail;
  finding.remedy =
      seen.uid ? absl::StrCat("start the agent with --allow_uids=", list, list.empty() ? "" : ",",
                              *seen.uid, ", or run the worker as one of these")
               : "map the worker's uid in its container (uid_map), or run it without a user "
                 "namespace";
  return finding;
}

// Returns the result of this process's handshake on the descriptor socket.
Finding SessionFinding(const NodeFacts& facts) {
  Finding finding{.check = "session"};
  // The handshake named a tenant that does not exist. If it got that far, all before it worked.
  if (facts.session.ok() || (absl::IsPermissionDenied(facts.session) &&
                             absl::StrContains(facts.session.message(), "knows no tenant"))) {
    finding.detail = "user, version and layout are accepted";
    return finding;
  }
  if (facts.sharing.ok() && !Allows(*facts.sharing, facts.own_uid) &&
      (facts.uid_named || facts.own_uid == 0)) {
    finding.health = Health::kWarn;
    finding.detail = absl::StrCat("not tried: uid ", facts.own_uid, " is no worker's");
    finding.remedy = "run kvtier doctor as the worker's user to see its version and layout, too";
    return finding;
  }
  finding.health = Health::kFail;
  finding.detail = Printable(std::string(facts.session.message()));
  if (absl::IsFailedPrecondition(facts.session)) {
    finding.remedy =
        "install worker and agent of the same build (kvtier version prints the layout)";
  } else if (absl::IsPermissionDenied(facts.session)) {
    finding.remedy = "add the worker's uid to the agent's --allow_uids";
  } else if (absl::IsResourceExhausted(facts.session)) {
    finding.remedy = "end workers that are not needed: an agent has 1,024 sessions";
  } else {
    finding.remedy = "look into the agent's log; restart an agent that does not answer";
  }
  return finding;
}

Finding AgentFinding(const NodeFacts& facts) {
  Finding finding{.check = "agent"};
  if (!facts.status.ok()) {
    finding.health = Health::kFail;
    finding.detail = FailureText(facts.status.status());
    finding.remedy = absl::IsFailedPrecondition(facts.status.status())
                         ? "install kvtier and agent of the same build"
                     : SaysStarting(facts.status.status())
                         ? "wait until the agent is ready"
                         : "look into the agent's log; restart an agent that does not answer";
    return finding;
  }
  finding.detail = absl::StrCat(facts.status->version().build(), ", layout ",
                                wire::LayoutText(wire::LayoutDigest(convert::kProtocolVersion)),
                                " as this program, ", facts.status->sessions(), " sessions");
  return finding;
}

}  // namespace

std::optional<uint32_t> OutsideUid(uint32_t uid, std::span<const UidRange> map) {
  for (const UidRange& range : map) {
    if (uid >= range.inside && uid - range.inside < range.count) {
      return range.outside + (uid - range.inside);
    }
  }
  return std::nullopt;
}

Findings SocketFindings(const NodeFacts& facts) {
  Findings findings = {DirectoryFinding(facts)};
  if (facts.directory_error != 0) return findings;
  for (const SocketFacts& socket : facts.sockets) findings.push_back(SocketFinding(facts, socket));
  if (Connects(facts, kAgentAdminSocketName)) {
    findings.push_back(AgentFinding(facts));
    if (facts.sharing.ok()) findings.push_back(UidFinding(facts));
  }
  if (Connects(facts, wire::kDescriptorSocketName)) findings.push_back(SessionFinding(facts));
  return findings;
}

}  // namespace kvtier::cli
