// AgentProcess is one real kvtier-agent, which a test starts, hangs, kills, starts again, and asks
// over its admin service.
#ifndef KVTIER_TESTS_TESTING_AGENT_PROCESS_H_
#define KVTIER_TESTS_TESTING_AGENT_PROCESS_H_

#include <signal.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/tier.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "tests/testing/child_process.h"

namespace kvtier::testing {

// Values of flags by name. They add to the flags that AgentProcess sets itself, or replace them.
using Flags = std::map<std::string, std::string>;

// Only the admin calls are thread-safe.
class AgentProcess {
 public:
  struct Options {
    std::string name;
    std::string socket_dir;
    std::string disk_dir;
    std::string address;      // Address of --listen.
    std::string coordinator;  // Address of the coordinator; empty: the agent runs alone.
    std::string log;          // File to which the agent's output is appended.
    Flags flags;
  };
  explicit AgentProcess(Options options);

  // Makes later starts run the command `words`, followed by the agent's flags, instead of this
  // build's kvtier-agent.
  void RunAs(std::vector<std::string> words) { words_ = std::move(words); }

  // Starts the agent, waits until workers can connect, and returns the time that took. Errors:
  // kUnavailable, the agent ended, with the end of its log; kDeadlineExceeded.
  absl::StatusOr<absl::Duration> Start();
  // Starts the agent without waiting, for tests of agents that do not come up.
  absl::Status Spawn();
  void Kill() { process_->Kill(); }  // kill -9: nothing is flushed.
  void Hang() { process_->Signal(SIGSTOP); }
  void Continue() { process_->Signal(SIGCONT); }
  // Sends SIGTERM and returns the exit status; nullopt: the agent still ran after `limit`.
  std::optional<int> Stop(absl::Duration limit);
  ChildProcess& process() { return *process_; }

  const Options& options() const { return options_; }
  const std::string& socket_dir() const { return options_.socket_dir; }
  const std::string& address() const { return options_.address; }
  // Returns the address for operators, in the form that gRPC and `kvtier --agent` take.
  std::string admin_address() const;
  std::string LogText() const;  // Log of every run of the agent.

  // Status() and the functions after it make admin calls. A failed call fails the test and returns
  // an empty message.
  v1::AgentStatusResponse Status();
  // Returns the tier's report; an empty one if the node has no such tier.
  v1::TierReport TierStatus(Tier tier);
  v1::LookupResponse Lookup(const BlockKey& key);
  bool Holds(Tier tier, const BlockKey& key);
  v1::EvictTierResponse EvictUnheld(Tier tier);
  // Waits until there is no lease and then evicts the whole tier.
  v1::EvictTierResponse Evict(Tier tier);
  // Asks for another size of the GPU pool, without failing the test.
  absl::StatusOr<v1::GpuPoolSize> ResizeGpu(uint64_t bytes,
                                            absl::Duration limit = absl::Seconds(20));
  v1::GpuPoolSize GpuSize();
  // Makes the call once, without failing the test.
  absl::StatusOr<v1::AgentStatusResponse> TryStatus();
  absl::StatusOr<v1::EvictTierResponse> TryEvict(Tier tier);
  // Waits until every put block is on disk or was declined. False: not within 20 s.
  bool AwaitOffloaded();
  bool AwaitLeases(uint32_t count);
  bool AwaitCoordinator();

 private:
  // Returns whether workers can connect, which is the last thing that an agent sets up.
  bool Ready();

  const Options options_;
  std::vector<std::string> words_ = {ProgramPath("kvtier-agent")};
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<v1::AgentAdmin::Stub> admin_;  // Stub for this life.
};

// Returns the last `bytes` of the file.
std::string FileTail(const std::string& path, size_t bytes);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_AGENT_PROCESS_H_
