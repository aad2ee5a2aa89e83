// CoordinatorProcess is one real kvtier-coordinator, which a test starts, hangs, kills and starts
// again.
#ifndef KVTIER_TESTS_TESTING_COORDINATOR_PROCESS_H_
#define KVTIER_TESTS_TESTING_COORDINATOR_PROCESS_H_

#include <signal.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/block_key.h"
#include "core/peer_name.h"
#include "grpcpp/channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "tests/testing/child_process.h"
#include "tests/testing/open_peer_namer.h"

namespace kvtier::testing {

class CoordinatorProcess {
 public:
  struct Options {
    std::string address;
    std::string data_dir;
    std::string socket_dir;
    std::string log;
  };
  explicit CoordinatorProcess(Options options) : options_(std::move(options)) {}

  // Starts the coordinator and waits until it answers. Errors: kUnavailable, with the end of its
  // log.
  absl::Status Start();
  ChildProcess& process() { return *process_; }
  void Kill() { process_->Kill(); }
  void Hang() { process_->Signal(SIGSTOP); }
  void Continue() { process_->Signal(SIGCONT); }

  const std::string& address() const { return options_.address; }
  const std::string& socket_dir() const { return options_.socket_dir; }
  // Returns the address for operators, in the form that gRPC and `kvtier --coordinator` take.
  std::string admin_address() const;
  const std::string& log() const { return options_.log; }
  const std::string& data_dir() const { return options_.data_dir; }
  // Returns a channel to the coordinator that the last Start() started.
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }
  absl::StatusOr<v1::CoordinatorStatusResponse> TryStatus();
  // Returns how many nodes the coordinator believes to hold the block.
  int Holders(const PeerName& name);
  // Waits until the coordinator believes that `count` nodes hold the block. False: not within 20 s.
  bool AwaitHolders(const PeerName& name, int count);
  // The same of a block of the open tenant.
  int Holders(const BlockKey& key) { return Holders(OpenPeerNamer().NameOf(key)); }
  bool AwaitHolders(const BlockKey& key, int count) {
    return AwaitHolders(OpenPeerNamer().NameOf(key), count);
  }

 private:
  const Options options_;
  std::unique_ptr<ChildProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::CoordinatorAdmin::Stub> admin_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_COORDINATOR_PROCESS_H_
