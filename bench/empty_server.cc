// Runs bench_empty_server SOCKET, which answers calls without content at a Unix socket, for
// empty_call.h. It uses nothing of kvtier but the names of the messages.
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <memory>
#include <string>

#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "kvtier/v1/worker.grpc.pb.h"

namespace {

class EmptyService final : public kvtier::v1::Worker::CallbackService {
 public:
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const kvtier::v1::PingRequest* /*request*/,
                                 kvtier::v1::PingResponse* /*response*/) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: bench_empty_server SOCKET\n");
    return 2;
  }
  // Ends with the benchmark that started it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  EmptyService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "bench_empty_server: cannot listen at %s\n", argv[1]);
    return 1;
  }
  server->Wait();
  return 0;
}
