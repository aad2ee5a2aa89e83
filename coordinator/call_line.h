// CallLine runs the calls of agents on threads of its own, a few at a time, so that gRPC's threads
// wait for none. The others wait, and the nodes take turns: each has one call, and those of one
// node begin in the order in which they came. What may wait is bounded in bytes. When there is no
// more room, the last call of the node that has most waiting gives way to a call of a node that has
// less; else the new call is refused.
#ifndef KVTIER_COORDINATOR_CALL_LINE_H_
#define KVTIER_COORDINATOR_CALL_LINE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kvtier {

// Calls that run at a time: the decisions are made one by one, the rest is the work of reading
// requests and writing answers.
inline constexpr size_t kMaxCallsAtOnce = 4;
// Memory that calls may take while they wait: so much each for gRPC and the call, and for each byte
// of the request its parsed form.
inline constexpr size_t kBytesPerCall = size_t{16} << 10;
inline constexpr size_t kBytesPerRequestByte = 4;
inline constexpr size_t kMaxWaitingBytes = size_t{192} << 20;

// Thread-safe. REQUIRES: no call waits when it is destroyed.
class CallLine {
 public:
  // Call is one call. Exactly one of its functions is called, once, by any thread; none after
  // Remove() returned true.
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Run() = 0;
    virtual void Refuse() = 0;  // Called when there is no room for it any more.
  };

  // `max_bytes` is the memory that may wait.
  explicit CallLine(size_t max_bytes = kMaxWaitingBytes);
  ~CallLine();
  CallLine(const CallLine&) = delete;
  CallLine& operator=(const CallLine&) = delete;

  // Adds a call. `node` says whose turns it takes; `request_bytes` is the length of its request.
  void Add(const std::string& node, size_t request_bytes, Call* call) ABSL_LOCKS_EXCLUDED(mu_);
  // Removes a call that waits. Returns false if it does not: it runs, or ended.
  bool Remove(const std::string& node, Call* call) ABSL_LOCKS_EXCLUDED(mu_);
  size_t waiting() const ABSL_LOCKS_EXCLUDED(mu_);  // Number of calls that wait.

 private:
  struct Waiting {
    Call* call = nullptr;
    size_t bytes = 0;
  };
  struct Line {  // Calls of one node, never none.
    std::deque<Waiting> calls;
    size_t bytes = 0;
  };
  using Lines = std::map<std::string, Line>;

  // Takes out a call at a place in its line, and returns it.
  Call* Take(Lines::iterator line, std::deque<Waiting>::iterator place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds a call; returns those that give way, or the call itself.
  std::vector<Call*> Queue(const std::string& node, Waiting waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopped_ || !lines_.empty(); }
  // Runs calls until the line is destroyed.
  void RunAll();

  const size_t max_bytes_;
  mutable absl::Mutex mu_;
  Lines lines_ ABSL_GUARDED_BY(mu_);
  std::string last_ ABSL_GUARDED_BY(mu_);  // Node that had the last turn.
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes of the calls that wait.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_CALL_LINE_H_
