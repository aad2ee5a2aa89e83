#include "tests/testing/process_cluster.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier::testing {
namespace {

constexpr int kFirstPort = 7300;  // Below the ports that the kernel gives to clients.
constexpr size_t kLogTailBytes = 4000;

std::string MakeDirectory(std::string name) {
  KVT_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

std::string DiskRoot() {
  std::filesystem::create_directories(KVTIER_TEST_DISK_DIR);
  return MakeDirectory(absl::StrCat(KVTIER_TEST_DISK_DIR, "/cluster-XXXXXX"));
}

}  // namespace

ProcessCluster::ProcessCluster()
    : run_dir_(MakeDirectory("/tmp/kvtier-XXXXXX")),
      disk_root_(DiskRoot()),
      next_port_(kFirstPort) {}

ProcessCluster::~ProcessCluster() {
  const bool failed = ::testing::Test::HasFailure();
  if (failed) {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(run_dir_, error)) {
      if (file.path().extension() != ".log") continue;
      std::fprintf(stderr, "--- %s\n%s\n", file.path().c_str(),
                   FileTail(file.path(), kLogTailBytes).c_str());
    }
    std::fprintf(stderr, "--- kept: %s %s\n", run_dir_.c_str(), disk_root_.c_str());
  }
  agents_.clear();
  coordinator_.reset();
  if (failed) return;
  std::error_code error;
  std::filesystem::remove_all(run_dir_, error);
  std::filesystem::remove_all(disk_root_, error);
}

std::string ProcessCluster::WriteTenants(const std::map<std::string, std::string>& secrets) const {
  const std::string directory = absl::StrCat(run_dir_, "/tenants");
  std::filesystem::create_directories(directory);
  for (const auto& [name, secret] : secrets) {
    const std::string path = absl::StrCat(directory, "/", name);
    std::ofstream(path) << secret << "\n";
    KVT_CHECK(chmod(path.c_str(), 0600) == 0);
  }
  return directory;
}

// Returns an address that depends on the process id. All of 127.0.0.0/8 is loopback, so two tests
// that run at once never look for the same free port.
std::string ProcessCluster::NextAddress() {
  const auto pid = static_cast<unsigned>(getpid());
  return absl::StrCat("127.", 1 + (pid >> 16) % 127, ".", (pid >> 8) % 256, ".", pid % 256, ":",
                      next_port_++);
}

CoordinatorProcess& ProcessCluster::StartCoordinator() {
  coordinator_ = std::make_unique<CoordinatorProcess>(
      CoordinatorProcess::Options{.address = NextAddress(),
                                  .data_dir = absl::StrCat(disk_root_, "/coordinator"),
                                  .socket_dir = run_dir_,
                                  .log = absl::StrCat(run_dir_, "/coordinator.log")});
  EXPECT_EQ(coordinator_->Start(), absl::OkStatus());
  return *coordinator_;
}

AgentProcess& ProcessCluster::StartAgent(const std::string& name, const Flags& flags) {
  AgentProcess& agent = AddAgent(name, flags);
  EXPECT_EQ(agent.Start().status(), absl::OkStatus());
  if (coordinator_ != nullptr && !flags.contains("coordinator")) {
    EXPECT_TRUE(agent.AwaitCoordinator()) << name;
  }
  return agent;
}

AgentProcess& ProcessCluster::AddAgent(const std::string& name, const Flags& flags) {
  agents_.push_back(std::make_unique<AgentProcess>(
      AgentProcess::Options{.name = name,
                            .socket_dir = absl::StrCat(run_dir_, "/", name),
                            .disk_dir = absl::StrCat(disk_root_, "/", name),
                            .address = NextAddress(),
                            .coordinator = coordinator_ == nullptr ? "" : coordinator_->address(),
                            .log = absl::StrCat(run_dir_, "/", name, ".log"),
                            .flags = flags}));
  return *agents_.back();
}

}  // namespace kvtier::testing
