// These functions ask several programs the same question at the same time, and combine their
// answers.
#ifndef KVTIER_CLI_ANSWERS_H_
#define KVTIER_CLI_ANSWERS_H_

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "cli/table.h"

namespace kvtier::cli {

// Answer of the program at `address`, or why there is none.
template <typename Response>
struct Answer {
  std::string address;
  absl::StatusOr<Response> response = absl::UnknownError("not asked");
};

// Calls ask(address) for all addresses at the same time, so that a program that is down does not
// delay the others. Answers are in the order of the addresses.
template <typename Response, typename AskOne>
std::vector<Answer<Response>> AskAll(const std::vector<std::string>& addresses, AskOne ask) {
  std::vector<Answer<Response>> answers(addresses.size());
  std::vector<std::thread> threads;
  threads.reserve(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    answers[i].address = addresses[i];
    threads.emplace_back([&answers, &ask, i] { answers[i].response = ask(answers[i].address); });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

// Returns one line for a table: "no answer in time", "no agent answers at ...", "unreachable
// (...)", or the program's words.
std::string FailureText(const absl::Status& status);

// Returns the answers for people: a section for each agent, which has what body(response) says
// below the agent's head line; one that did not answer has only that line. A response has a
// `node_id`.
template <typename Response, typename Body>
std::string AgentSections(const std::vector<Answer<Response>>& answers, Body body) {
  std::string out;
  for (const auto& [address, response] : answers) {
    if (!out.empty()) out += "\n";
    if (!response.ok()) {
      absl::StrAppend(&out, "AGENT  ", address, "  ", FailureText(response.status()), "\n");
      continue;
    }
    absl::StrAppend(&out, "AGENT  ", Printable(response->node_id()), "  ", address, "\n",
                    body(*response));
  }
  return out;
}

// Returns, for programs, an element of `agents` for each answer, with its address and what
// body(response, json) adds, or the error.
template <typename Response, typename Body>
std::string AgentsJson(const std::vector<Answer<Response>>& answers, Body body) {
  JsonWriter json;
  json.OpenArray("agents");
  for (const auto& [address, response] : answers) {
    json.OpenElement();
    json.Text("address", address);
    if (response.ok()) {
      body(*response, &json);
    } else {
      json.Text("error", FailureText(response.status()));
    }
    json.Close();
  }
  json.Close();
  return json.Finish();
}

// Verdict combines the outcomes of several questions into one exit code. Not thread-safe.
class Verdict {
 public:
  template <typename Response>
  void Add(const Answer<Response>& answer) {
    Add(answer.response.status());
  }
  void Add(const absl::Status& status);
  // Returns kOk when all answered; kUnreachable when none could be reached; kWrongDoor when all
  // were asked at an address that does not answer this; kNotFound when all answered, and at least
  // one that there is none; else kFailed.
  ExitCode code() const;

 private:
  size_t asked_ = 0;
  size_t answered_ = 0;
  size_t unreachable_ = 0;
  size_t not_found_ = 0;
  size_t wrong_door_ = 0;
};

// Returns the exit code of a question about a thing that one program or several may have, where
// has(response) says whether it is there. It is enough that one has it: then a program that does
// not know it has done all that was asked. kNotFound: all answered, and none has it.
template <typename Response, typename Has>
ExitCode CodeWhereOneHas(const std::vector<Answer<Response>>& answers, Has has) {
  bool found = false;
  for (const auto& answer : answers) {
    found = found || (answer.response.ok() && has(*answer.response));
  }
  Verdict verdict;
  for (const auto& answer : answers) {
    const bool knows_none = found && absl::IsNotFound(answer.response.status());
    verdict.Add(knows_none ? absl::OkStatus() : answer.response.status());
  }
  return verdict.code() == ExitCode::kOk && !found ? ExitCode::kNotFound : verdict.code();
}

// Returns whether the program is there, but does not answer this question at this address.
bool IsWrongDoor(const absl::Status& status);

// Returns whether no program was there to answer in time.
bool IsUnreachable(const absl::Status& status);

// Returns the outcome of a question that failed as a whole: its words for people, and with
// Format::kJson an object with them for programs, too.
Outcome Failure(const Arguments& arguments, const std::string& address, const absl::Status& status);

// Returns the coordinator's address: as named on the command line, else as the first agent knows
// it. Errors: that agent's, or kFailedPrecondition when it runs alone.
absl::StatusOr<std::string> CoordinatorAddress(const Arguments& arguments);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_ANSWERS_H_
