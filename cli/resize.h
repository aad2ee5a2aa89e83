// Answers of agents when memory is to have another size, as people and programs read it: of GPU
// pools and of host memory.
#ifndef KVTIER_CLI_RESIZE_H_
#define KVTIER_CLI_RESIZE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"

namespace kvtier::cli {

// ResizedMemory is one size of memory and the size that it is changing to.
struct ResizedMemory {
  uint64_t bytes = 0;
  uint64_t target_bytes = 0;
  uint64_t max_bytes = 0;
  uint64_t unit_bytes = 0;  // Unit of a change, in bytes.
  std::string note;         // Note to print beside it; empty: none.
  // Reason why the size is not the one that was asked for; empty: nothing failed.
  std::string failure;
};

// Returns a row for each answer. `asked`: bytes, as the person gave them; `units`: what memory
// consists of, "handles".
std::string ResizeTable(const std::vector<Answer<ResizedMemory>>& answers, uint64_t asked,
                        const char* units);

// Returns the outcome of asking for `asked` bytes: kFailed when an agent refused, or says that it
// cannot. In progress is not a failure. `read` takes a response's size, and `write` writes it.
template <typename Response, typename Read, typename Write>
Outcome ResizeOutcome(const Arguments& arguments, const std::vector<Answer<Response>>& answers,
                      const char* units, Read read, Write write) {
  Verdict verdict;
  std::vector<Answer<ResizedMemory>> sizes;
  for (const auto& [address, response] : answers) {
    auto size = response.ok() ? absl::StatusOr<ResizedMemory>(read(response->size()))
                              : absl::StatusOr<ResizedMemory>(response.status());
    const bool failed = size.ok() && !size->failure.empty();
    verdict.Add(failed ? absl::FailedPreconditionError(size->failure) : size.status());
    sizes.push_back({address, std::move(size)});
  }
  const auto body = [&write](const Response& response, JsonWriter* json) {
    write(response.size(), json);
  };
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson
                     ? AgentsJson(answers, body)
                     : ResizeTable(sizes, arguments.resize_bytes, units)};
}

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_RESIZE_H_
