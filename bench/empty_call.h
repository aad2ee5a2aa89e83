// EmptyCall is the reference for calls: a plain gRPC call without content.
#ifndef KVTIER_BENCH_EMPTY_CALL_H_
#define KVTIER_BENCH_EMPTY_CALL_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/child_process.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace kvtier::bench {

// EmptyCall starts its server in another process, on gRPC's callback interface; the client uses the
// blocking one. Both have gRPC's defaults and use a Unix socket.
class EmptyCall {
 public:
  // Starts the server, bench_empty_server, and returns when it answers. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<EmptyCall>> Open();
  // Ends the server and removes its directory.
  ~EmptyCall();

  absl::Status Send();

 private:
  explicit EmptyCall(std::string directory) : directory_(std::move(directory)) {}

  const std::string directory_;
  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_EMPTY_CALL_H_
