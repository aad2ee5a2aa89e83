// CallLoop serves the calls of asynchronous gRPC services from one completion queue on one
// thread. gRPC 1.51's callback services have two threads that hand each call over to each other.
//
// A server that has callback services, too, has their threads as well, and loses what this gains.
// So does a program with other servers, unless it calls PollQueuesApart().
#ifndef KVTIER_PROTO_CALL_LOOP_H_
#define KVTIER_PROTO_CALL_LOOP_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"

namespace kvtier {

// Has each of gRPC's queues wait for its own connections only, by poll(2). By default, one set of
// epoll(7) is all queues', and any waiting thread takes an event and wakes the thread that it is
// for. Whoever has set GRPC_POLL_STRATEGY is left alone. REQUIRES: gRPC is not used yet, and there
// is no second thread.
void PollQueuesApart();

// Thread-compatible: its owner calls Start() and Stop() once, in this order.
class CallLoop {
 public:
  // Something that the queue tells of.
  class Event {
   public:
    // Names the event to gRPC.
    void* tag() { return this; }
    // Runs when the event happens; `ok` is what gRPC says of it. On the loop's thread.
    virtual void Happen(bool ok) = 0;

   protected:
    ~Event() = default;
  };
  // Runs `kHandle` of its owner when it happens.
  template <typename Owner, void (Owner::*kHandle)(bool ok)>
  class EventOf;

  explicit CallLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue)
      : queue_(std::move(queue)) {}
  // REQUIRES: Stop() has returned, or Start() was not called.
  ~CallLoop();
  CallLoop(const CallLoop&) = delete;
  CallLoop& operator=(const CallLoop&) = delete;

  // Starts the thread; `name` (15 bytes at most) shows in ps and gdb. REQUIRES: a call was asked
  // for.
  void Start(const std::string& name);
  // Waits until every call has ended, also those whose answers come from other threads, and joins
  // the thread. REQUIRES: the server was shut down; it cancels calls, but their flows end by
  // themselves.
  void Stop();
  // Where the server puts events of calls.
  grpc::ServerCompletionQueue* queue() const { return queue_.get(); }

 private:
  friend class QueuedCall;
  void Run();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  // Calls that were asked for and have not ended. Of the thread, and of Start()'s caller before.
  // One of each RPC is always asked for while the server runs.
  size_t calls_ = 0;
  absl::Notification no_calls_;  // calls_ is 0 for good.
  std::thread thread_;
};

template <typename Owner, void (Owner::*kHandle)(bool ok)>
class CallLoop::EventOf final : public CallLoop::Event {
 public:
  explicit EventOf(Owner* owner) : owner_(owner) {}
  void Happen(bool ok) override { (owner_->*kHandle)(ok); }

 private:
  Owner* const owner_;
};

// QueuedCall is one call of a CallLoop, from the moment that the server is asked for it. It lives
// on the heap and deletes itself when its answer is sent and gRPC has said how it ended, or when
// the server stops before it arrives.
class QueuedCall {
 public:
  QueuedCall(const QueuedCall&) = delete;
  QueuedCall& operator=(const QueuedCall&) = delete;

 protected:
  // REQUIRES: the derived class asks the server for the call, with context() and arrived().
  explicit QueuedCall(CallLoop* loop);
  virtual ~QueuedCall();

  // Begins to answer the call, which has arrived, and asks the server for the next one. The answer
  // is finished once, with answered(), on any thread. On the loop's thread.
  virtual void Arrive() = 0;
  // Hears that the call was cancelled, by its caller or its deadline or the server, perhaps behind
  // its answer. context()->IsCancelled() is true from now on. On the loop's thread.
  virtual void OnCancel() {}

  CallLoop* loop() const { return loop_; }
  grpc::ServerContext* context() { return &context_; }
  void* arrived() { return arrived_.tag(); }
  void* answered() { return answered_.tag(); }

 private:
  void OnArrived(bool ok);
  void OnAnswered(bool ok);
  void OnEnded(bool ok);
  void DeleteIfOver();

  CallLoop* const loop_;
  grpc::ServerContext context_;
  CallLoop::EventOf<QueuedCall, &QueuedCall::OnArrived> arrived_{this};
  CallLoop::EventOf<QueuedCall, &QueuedCall::OnAnswered> answered_{this};
  CallLoop::EventOf<QueuedCall, &QueuedCall::OnEnded> ended_{this};
  bool is_answered_ = false;  // Of the loop's thread, as what follows.
  bool is_ended_ = false;
};

// A gRPC service whose calls are a CallLoop's.
class QueuedService {
 public:
  // Returns what the server registers.
  virtual grpc::Service* rpcs() = 0;
  // Asks for the first call of each RPC. REQUIRES: the server runs, and `loop` does not.
  virtual void Serve(CallLoop* loop) = 0;

 protected:
  ~QueuedService() = default;
};

}  // namespace kvtier

#endif  // KVTIER_PROTO_CALL_LOOP_H_
