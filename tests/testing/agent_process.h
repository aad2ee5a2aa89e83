// AgentProcess is one real kvtier-agent, started, hung, killed and started again by a
// test, and asked over its admin service.
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

// Flags beside (and over) those that AgentProcess sets itself: name to value.
using Flags = std::map<std::string, std::string>;

// Only the admin calls are thread-safe.
class AgentProcess {
 public:
  struct Options {
    std::string name;
    std::string socket_dir;
    std::string disk_dir;
    std::string address;      // Address of --listen.
    std::string coordinator;  // Empty: it runs alone.
    std::string log;          // File that its output is appended to.
    Flags flags;
  };
  explicit AgentProcess(Options options);

  // Makes the program `words`, followed by the agent's flags, instead of this build's kvtier-agent,
  // from the next start on.
  void RunAs(std::vector<std::string> words) { words_ = std::move(words); }

  // Starts it and returns when workers can connect; the time that took. Errors:
  // kUnavailable, with the last words of one that ended instead; kDeadlineExceeded.
  absl::StatusOr<absl::Duration> Start();
  // Starts it, for tests of agents that do not come up.
  absl::Status Spawn();
  void Kill() { process_->Kill(); }  // kill -9: nothing is flushed.
  void Hang() { process_->Signal(SIGSTOP); }
  void Continue() { process_->Signal(SIGCONT); }
  // SIGTERM; its exit status, and nullopt when it still ran after `limit`.
  std::optional<int> Stop(absl::Duration limit);
  ChildProcess& process() { return *process_; }

  const Options& options() const { return options_; }
  const std::string& socket_dir() const { return options_.socket_dir; }
  const std::string& address() const { return options_.address; }
  // Where operators are answered, as gRPC and `kvtier --agent` take it.
  std::string admin_address() const;
  std::string LogText() const;  // Log of all its lives.

  // Admin calls. A failed one fails the test and answers an empty message.
  v1::AgentStatusResponse Status();
  // Returns the tier's report; an empty one when the node has no such tier.
  v1::TierReport TierStatus(Tier tier);
  v1::LookupResponse Lookup(const BlockKey& key);
  bool Holds(Tier tier, const BlockKey& key);
  v1::EvictTierResponse EvictUnheld(Tier tier);
  // The same, once no lease stands: the tier is empty then.
  v1::EvictTierResponse Evict(Tier tier);
  // Asks for another size of the GPU pool, without failing the test.
  absl::StatusOr<v1::GpuPoolSize> ResizeGpu(uint64_t bytes,
                                            absl::Duration limit = absl::Seconds(20));
  v1::GpuPoolSize GpuSize();
  // Ask once, without failing the test.
  absl::StatusOr<v1::AgentStatusResponse> TryStatus();
  absl::StatusOr<v1::EvictTierResponse> TryEvict(Tier tier);
  // Every put block is on disk, or was declined. False: not within 20 s.
  bool AwaitOffloaded();
  bool AwaitLeases(uint32_t count);
  bool AwaitCoordinator();

 private:
  // Workers can connect: the last thing that an agent sets up.
  bool Ready();

  const Options options_;
  std::vector<std::string> words_ = {ProgramPath("kvtier-agent")};
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<v1::AgentAdmin::Stub> admin_;  // Stub for this life.
};

// The last `bytes` of the file.
std::string FileTail(const std::string& path, size_t bytes);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_AGENT_PROCESS_H_
