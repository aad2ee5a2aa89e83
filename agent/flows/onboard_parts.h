// Onboarder::Parts is one request in progress whose blocks are handed over in parts: what became
// ready since the last part is leased and returned at once, while the rest is waited for.
//
// A part extends the prefix of each run, and has blocks of a set in any order. A caller that is
// slow to ask for the next part does not make this grow: blocks that become ready meanwhile come in
// that part.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_ONBOARD_PARTS_H_
#define KVTIER_AGENT_FLOWS_ONBOARD_PARTS_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/flows/onboard.h"
#include "agent/sessions/sessions.h"
#include "core/event.h"
#include "core/miss_reason.h"
#include "core/task.h"
#include "core/task_scope.h"

namespace kvtier {

// Blocks of one request that became ready since the part before, leased.
struct OnboardPart {
  struct Sequence {
    size_t index = 0;                 // Index of the sequence in the request.
    std::vector<LeasedBlock> blocks;  // Blocks in the order of the keys.
  };
  std::vector<Sequence> sequences;  // Sequences that have new blocks.
  absl::Time lease_deadline;        // Deadline of these blocks' leases.
  // Reason for which the first missing block of each sequence of the request did not come, set in
  // the last part. Empty: more parts follow.
  std::vector<MissReason> missed;
};

class Onboarder::Parts {
 public:
  // Begins to bring what `requests` want, all of one session. Does not own `onboarder`. Errors:
  // kInvalidArgument, the target is not host memory.
  static absl::StatusOr<std::shared_ptr<Parts>> Begin(Onboarder* onboarder,
                                                      std::vector<OnboardRequest> requests);
  // Loads on their way go on, and their blocks stay on the node.
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Waits until there is something new or all is known, by the deadline at the latest. The leases
  // belong to the session. Errors: kFailedPrecondition, the session is over; kCancelled, Cancel()
  // was called. REQUIRES: the last part has not been returned; one call at a time.
  Task<absl::StatusOr<OnboardPart>> Next();
  // Makes Next() return soon, with an error. Idempotent.
  void Cancel();
  // Ends the leases of a part that the caller never got.
  void TakeBack(const OnboardPart& part);

  // Returns the session that asked.
  SessionId session() const { return sequences_[0].request.run.session; }

 private:
  // Sequence is the state of one sequence of the request.
  struct Sequence {
    explicit Sequence(OnboardRequest asked) : request(std::move(asked)) {}
    OnboardRequest request;
    Brought brought;
    bool is_gathered = false;   // Whether nothing is added to `brought` any more.
    bool is_full = false;       // There was no lease left: nothing more is handed over.
    size_t looked = 0;          // Leading blocks of `brought` that are ready or watched.
    size_t next = 0;            // First block of a run that was in no part.
    size_t coming = 0;          // Blocks of a set that are watched and have not come.
    std::vector<size_t> ready;  // Blocks of a set that are ready and were in no part.
  };
  Parts(Onboarder* onboarder, std::vector<OnboardRequest> requests);

  static Task<void> Gather(std::shared_ptr<Parts> parts, Sequence* sequence);
  // Watches, or notes as ready, what a round of gathering has added.
  void Look(Sequence* sequence);
  void LookAt(Sequence* sequence, size_t index);
  Task<void> Watch(Sequence* sequence, size_t index);
  // Notes that the load of a block is done.
  void Arrive(Sequence* sequence, size_t index);
  // Drops what has not come by the deadline.
  void DropLate(Sequence* sequence);
  static bool HasNew(const Sequence& sequence);
  static bool IsOver(const Sequence& sequence);
  bool IsOver() const;
  // Leases the blocks that were in no part.
  OnboardPart TakeReady();
  std::vector<LeasedBlock> Lease(Sequence* sequence, absl::Time lease_deadline);
  void EndForWantOfLeases(Sequence* sequence, size_t index);

  Onboarder* const onboarder_;
  absl::Time deadline_;              // Earliest deadline of the requests.
  std::vector<Sequence> sequences_;  // Keeps its size: tasks point into it.
  bool cancelled_ = false;
  std::unique_ptr<Event> news_;  // Set when there is something for Next() to look at.
  TaskScope watches_;            // Destroyed first: its tasks use the members above.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_ONBOARD_PARTS_H_
