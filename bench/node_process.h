// NodeProcess runs a real kvtier program (agent or coordinator) in a child process, in a scratch
// directory of its own, as long as the object lives.
#ifndef KVTIER_BENCH_NODE_PROCESS_H_
#define KVTIER_BENCH_NODE_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/child_process.h"
#include "kvtier/v1/admin.grpc.pb.h"

namespace kvtier::bench {

// Returns an unused TCP port of 127.0.0.1, as "127.0.0.1:port".
std::string FreeAddress();

class NodeProcess {
 public:
  // Starts kvtier-agent, found beside this program, with `flags` after --node_id, --socket_dir and
  // --listen. Returns when it answers. Errors: kUnavailable, with its output.
  static absl::StatusOr<std::unique_ptr<NodeProcess>> StartAgent(
      const std::string& node_id, const std::vector<std::string>& flags);
  // Starts a kvtier-coordinator in the same way.
  static absl::StatusOr<std::unique_ptr<NodeProcess>> StartCoordinator();
  // Kills the process and removes its directory.
  ~NodeProcess();

  const std::string& socket_dir() const { return directory_; }
  const std::string& address() const { return address_; }
  absl::StatusOr<v1::AgentStatusResponse> Status() const;
  // Returns the agent's report of one of its tiers. Errors: kNotFound, it has no such tier.
  absl::StatusOr<v1::TierReport> Tier(v1::Tier tier) const;
  // Returns the processor time that all its threads took since its start. Errors: kInternal, the
  // kernel does not report it.
  absl::StatusOr<double> ProcessorSeconds() const;
  // Empties host memory; waits for leases that clients release in the background. Errors:
  // kUnavailable, some block stays held.
  absl::Status EvictHost() const;
  // Returns when every committed block was written to disk, or declined.
  absl::Status AwaitOffload() const;

 private:
  NodeProcess(std::string directory, std::string address)
      : directory_(std::move(directory)), address_(std::move(address)) {}
  // Returns a stub for the agent's operators' socket. The caller uses it at once and destroys it:
  // an unused channel reconnects again and again.
  std::unique_ptr<v1::AgentAdmin::Stub> Admin() const;
  absl::Status Spawn(const std::string& program, const std::vector<std::string>& flags);

  const std::string directory_;
  const std::string address_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_NODE_PROCESS_H_
