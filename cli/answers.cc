#include "cli/answers.h"

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/table.h"
#include "core/status_macros.h"
#include "proto/socket_names.h"

namespace kvtier::cli {

void Verdict::Add(const absl::Status& status) {
  ++asked_;
  if (status.ok()) ++answered_;
  if (IsUnreachable(status)) ++unreachable_;
  if (absl::IsNotFound(status)) ++not_found_;
  if (IsWrongDoor(status)) ++wrong_door_;
}

ExitCode Verdict::code() const {
  if (answered_ == asked_) return ExitCode::kOk;
  if (unreachable_ == asked_) return ExitCode::kUnreachable;
  if (wrong_door_ == asked_) return ExitCode::kWrongDoor;
  if (answered_ + not_found_ == asked_) return ExitCode::kNotFound;
  return ExitCode::kFailed;
}

// Returns whether the error is that of a wrong door: the worker's socket has no such service, and
// the TCP port refuses it by name.
bool IsWrongDoor(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnimplemented(status);
}

bool IsUnreachable(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

std::string FailureText(const absl::Status& status) {
  const std::string words = Printable(std::string(status.message()));
  if (absl::IsDeadlineExceeded(status)) return "no answer in time";
  if (SaysNobodyAnswers(status) || SaysStarting(status)) return words;
  if (absl::IsUnavailable(status)) return absl::StrCat("unreachable (", words, ")");
  if (absl::IsUnimplemented(status)) {
    return absl::StrCat("not answered at this address; an agent answers operators at ",
                        kAgentAdminSocketName, ", a coordinator at ", kCoordinatorAdminSocketName,
                        ", in its --socket_dir");
  }
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", words);
}

Outcome Failure(const Arguments& arguments, const std::string& address,
                const absl::Status& status) {
  Verdict verdict;
  verdict.Add(status);
  // These words name the address.
  const std::string at = SaysNobodyAnswers(status) ? "" : absl::StrCat(address, ": ");
  Outcome outcome{.code = verdict.code(),
                  .err = absl::StrCat("kvtier: ", at, FailureText(status), "\n")};
  if (arguments.format == Format::kJson) {
    JsonWriter json;
    json.Text("address", address);
    json.Text("error", FailureText(status));
    outcome.out = json.Finish();
  }
  return outcome;
}

absl::StatusOr<std::string> CoordinatorAddress(const Arguments& arguments) {
  if (arguments.coordinator) return *arguments.coordinator;
  KVT_ASSIGN_OR_RETURN(const v1::AgentStatusResponse status,
                       AgentAdmin(arguments.agents[0], arguments.timeout).Status());
  if (status.coordinator_address().empty()) {
    return absl::FailedPreconditionError("this agent runs alone; name a --coordinator");
  }
  return status.coordinator_address();
}

}  // namespace kvtier::cli
