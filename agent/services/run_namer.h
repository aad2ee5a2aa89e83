// RunNamer finds the session of a request, and names the blocks that the request is about.
#ifndef KVTIER_AGENT_SERVICES_RUN_NAMER_H_
#define KVTIER_AGENT_SERVICES_RUN_NAMER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/agent.h"
#include "agent/block_run.h"
#include "agent/services/unary_service.h"
#include "core/task.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "kvtier/v1/worker.pb.h"

namespace kvtier {

// Executor thread only, but for CallerOf().
class RunNamer {
 public:
  // Does not own the agent.
  explicit RunNamer(Agent* agent) : agent_(agent) {}

  // Errors: kInvalidArgument, `token` is no token; kFailedPrecondition, no open session has it.
  absl::StatusOr<SessionId> FindSession(const std::string& token) const;
  // Returns the caller: the session, and how to find the tenant that pays for it. REQUIRES: the
  // token lives until the call begins.
  Caller CallerOf(const std::string& session_token) const;
  // Names the sequences of a request, and gives way to other tenants meanwhile. Ignores the hints
  // of a member that may only read its share group's blocks. REQUIRES: the request outlives the
  // task. Errors: FindSession()'s; kInvalidArgument, naming the field.
  template <typename Request>
  Task<absl::StatusOr<std::vector<BlockRun>>> NameRuns(const Request& request) const {
    return NameSequences(request.session_token(), request.sequences());
  }

 private:
  using Sequences = google::protobuf::RepeatedPtrField<v1::Sequence>;
  Task<absl::StatusOr<std::vector<BlockRun>>> NameSequences(const std::string& session_token,
                                                            const Sequences& sequences) const;
  Task<absl::StatusOr<BlockRun>> NameRun(SessionId session, const v1::Sequence& sequence) const;

  Agent* const agent_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_RUN_NAMER_H_
