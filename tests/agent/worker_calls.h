// WorkerCalls hands calls to an agent's service for workers as gRPC would, in the virtual time of
// an AgentRig. A test sees when a call is answered and with which bytes, without a socket or a
// thread.
#ifndef KVTIER_TESTS_AGENT_WORKER_CALLS_H_
#define KVTIER_TESTS_AGENT_WORKER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/services/worker_service.h"
#include "core/check.h"
#include "grpcpp/support/server_callback.h"
#include "kvtier/v1/worker.pb.h"
#include "proto/convert.h"
#include "tests/agent/agent_rig.h"
#include "tests/testing/blocks.h"

namespace kvtier::testing {

// UnaryCall is a call from its arrival to its answer. REQUIRES: it is answered when it is
// destroyed.
template <typename Request, typename Response>
class UnaryCall final : public grpc::ServerCallbackUnary {
 public:
  using Method = grpc::ServerUnaryReactor* (WorkerService::*)(grpc::CallbackServerContext*,
                                                              const Request*, Response*);
  // Hands the call to the service.
  UnaryCall(WorkerService* service, Method method, Request request)
      : request_(std::move(request)),
        reactor_((service->*method)(&context_, &request_, &response_)) {
    BindReactor(reactor_);
    is_bound_ = true;
    if (status_.has_value()) reactor_->OnDone();
  }
  ~UnaryCall() override { KVT_CHECK(is_answered()); }

  bool is_answered() const { return status_.has_value(); }
  // Return the answer. REQUIRES: the call is answered.
  const grpc::Status& status() const { return *status_; }
  Response& response() { return response_; }

 private:
  void Finish(grpc::Status status) override {
    status_ = std::move(status);
    if (is_bound_) reactor_->OnDone();
  }
  void SendInitialMetadata() override {}
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  grpc::CallbackServerContext context_;
  const Request request_;
  Response response_;
  std::optional<grpc::Status> status_;
  bool is_bound_ = false;
  grpc::ServerUnaryReactor* const reactor_;  // Ends itself in OnDone().
};

// PartsCall is an onboard in parts, whose caller reads each part at once.
class PartsCall final : public grpc::ServerCallbackWriter<v1::OnboardPart> {
 public:
  PartsCall(WorkerService* service, Executor* executor, v1::OnboardRequest request)
      : executor_(executor),
        request_(std::move(request)),
        reactor_(service->OnboardParts(&context_, &request_)) {
    BindReactor(reactor_);
    is_bound_ = true;
    if (status_.has_value()) reactor_->OnDone();
  }
  ~PartsCall() override { KVT_CHECK(is_answered()); }

  bool is_answered() const { return status_.has_value(); }
  const grpc::Status& status() const { return *status_; }
  std::vector<v1::OnboardPart>& parts() { return parts_; }

 private:
  void Finish(grpc::Status status) override {
    status_ = std::move(status);
    if (is_bound_) reactor_->OnDone();
  }
  void Write(const v1::OnboardPart* part, grpc::WriteOptions /*options*/) override {
    parts_.push_back(*part);
    executor_->Post([this] { reactor_->OnWriteDone(true); });
  }
  void WriteAndFinish(const v1::OnboardPart* part, grpc::WriteOptions /*options*/,
                      grpc::Status status) override {
    parts_.push_back(*part);
    Finish(std::move(status));
  }
  void SendInitialMetadata() override {}
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  Executor* const executor_;
  grpc::CallbackServerContext context_;
  const v1::OnboardRequest request_;
  std::vector<v1::OnboardPart> parts_;
  std::optional<grpc::Status> status_;
  bool is_bound_ = false;
  grpc::ServerWriteReactor<v1::OnboardPart>* const reactor_;  // Ends itself in OnDone().
};

class WorkerCalls {
 public:
  // Makes calls of the rig's agent. Does not own the rig.
  explicit WorkerCalls(AgentRig* rig) : rig_(rig), service_(rig->agent.get()) {}

  // A session, with what a worker knows of it.
  struct Worker {
    SessionId id{};
    std::string token;
    uint32_t space = 0;  // Id of TestSpace().
  };
  // Opens a session. Errors: as WorkerSessions::Open().
  absl::StatusOr<Worker> Open(size_t tenant) {
    return OpenFor(SessionTenants::Own(
        rig_->agent->options().tenants.OfDomain(static_cast<DomainId>(tenant))));
  }
  absl::StatusOr<Worker> OpenFor(const SessionTenants& of) {
    SessionToken token{};
    token[0] = static_cast<uint8_t>(++opened_);
    token[1] = static_cast<uint8_t>(opened_ >> 8);
    token.back() = 0xff;  // None of AgentRig's.
    const absl::StatusOr<SessionId> id = rig_->agent->sessions().Open(of, token);
    if (!id.ok()) return id.status();
    const auto space = rig_->agent->sessions().table().AddSpace(*id, TestSpace(kRigBlockBytes));
    KVT_CHECK(space.ok());
    return Worker{.id = *id, .token = std::string(token.begin(), token.end()), .space = *space};
  }

  // Returns a request of the worker about a run of AgentRig::Keys().
  template <typename Request>
  static Request About(const Worker& worker, uint64_t first, size_t count) {
    Request request;
    request.set_session_token(worker.token);
    v1::Sequence* const sequence = request.add_sequences();
    sequence->set_space_id(worker.space);
    for (const EngineKey& key : AgentRig::Keys(first, count)) {
      const absl::string_view bytes = key.bytes();
      sequence->mutable_engine_keys()->append(bytes.data(), bytes.size());
    }
    sequence->add_key_bytes(static_cast<uint32_t>(TestEngineKey(first).bytes().size()));
    return request;
  }

  // Makes a call, which Await() or SimTime::Step() lets the service answer.
  template <typename Request, typename Response>
  std::unique_ptr<UnaryCall<Request, Response>> Begin(
      grpc::ServerUnaryReactor* (WorkerService::*method)(grpc::CallbackServerContext*,
                                                         const Request*, Response*),
      Request request) {
    return std::make_unique<UnaryCall<Request, Response>>(&service_, method, std::move(request));
  }
  std::unique_ptr<PartsCall> BeginParts(v1::OnboardRequest request) {
    return std::make_unique<PartsCall>(&service_, &rig_->executor, std::move(request));
  }
  // Steps until the call is answered. REQUIRES: it will be.
  template <typename Call>
  void Await(const Call& call) {
    while (!call.is_answered()) KVT_CHECK(rig_->time.Step());
  }

 private:
  AgentRig* const rig_;
  WorkerService service_;
  uint64_t opened_ = 0;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_AGENT_WORKER_CALLS_H_
