// Submitted() starts a call of the C library that does not wait.
#ifndef KVTIER_CLIENT_C_SUBMISSION_H_
#define KVTIER_CLIENT_C_SUBMISSION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/c/handles.h"

namespace kvtier::c {

// The client of a submitted call, and the tag and operation of its completion.
struct Submission {
  kvtier_client* client;
  uint64_t tag;
  int op;
};

// Calls `submit(done)` with a place booked for the completion, and returns KVTIER_OK or an error.
// `read(result, completion)` writes the result into the completion when it is polled.
template <typename Result, typename Submit, typename Read>
int Submitted(const Submission& by, Submit submit, Read read) {
  CompletionQueue* const completions = &by.client->completions;
  if (!completions->Book()) {
    return Fail(KVTIER_AGAIN, "too many submitted calls are in progress; poll those that ended");
  }
  const absl::Status status = submit([completions, by, read = std::move(read)](Result result) {
    completions->Push([by, read, result = std::move(result)]() mutable {
      kvtier_completion completion{};
      completion.tag = by.tag;
      completion.op = by.op;
      read(std::move(result), &completion);
      return completion;
    });
  });
  if (status.ok()) return KVTIER_OK;
  completions->Unbook();
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    return Fail(KVTIER_AGAIN, std::string(status.message()));
  }
  return Fail(status);
}

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_SUBMISSION_H_
