// ProcessCluster runs the real programs of a small cluster on loopback, each in its own directory.
// If the test failed, the cluster prints their logs and keeps the directories.
#ifndef KVTIER_TESTS_TESTING_PROCESS_CLUSTER_H_
#define KVTIER_TESTS_TESTING_PROCESS_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/agent_process.h"
#include "tests/testing/coordinator_process.h"

namespace kvtier::testing {

class ProcessCluster {
 public:
  ProcessCluster();
  ~ProcessCluster();  // Kills every process, then removes the directories.

  // Starts the coordinator; agents added from now on use it. Fails the test if it
  // does not come up.
  CoordinatorProcess& StartCoordinator();
  // Makes an agent and starts it. Fails the test if it does not come up.
  AgentProcess& StartAgent(const std::string& name, const Flags& flags = {});
  // Makes an agent without starting it.
  AgentProcess& AddAgent(const std::string& name, const Flags& flags = {});

  // Writes these tenants' secrets into a directory for --tenants_dir, and returns its path.
  std::string WriteTenants(const std::map<std::string, std::string>& secrets) const;

  const std::string& run_dir() const { return run_dir_; }
  const std::string& disk_root() const { return disk_root_; }
  // Returns "127.x.y.z:port", which no other test process uses at the same time.
  std::string NextAddress();

 private:
  std::string run_dir_;    // Directory of sockets and logs; its path is short enough for sun_path.
  std::string disk_root_;  // Directory on the build's file system, which takes O_DIRECT.
  int next_port_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::vector<std::unique_ptr<AgentProcess>> agents_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_PROCESS_CLUSTER_H_
