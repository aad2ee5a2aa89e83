// LocatePatience says how long the coordinator's answer to a locate is worth waiting for:
// as long as its answers took so far and some more, and not at all while it is silent. The
// heartbeats find out when it answers again; no request has to.
//
// Executor thread only.
#ifndef KVTIER_AGENT_PEERS_LOCATE_PATIENCE_H_
#define KVTIER_AGENT_PEERS_LOCATE_PATIENCE_H_

#include <algorithm>
#include <optional>

#include "absl/time/time.h"
#include "agent/limits.h"

namespace kvtier {

class LocatePatience {
 public:
  // `grace` is the shortest wait for an answer, however fast the ones before were.
  explicit LocatePatience(absl::Duration grace = kLocateGrace)
      : grace_(grace), longest_(std::max(grace, kLocateTimeout)) {}

  // Returns the longest wait for an answer to a locate that is sent now; zero: none is to be
  // sent. `heard`: when the coordinator last answered a heartbeat; nullopt: it does not.
  absl::Duration Allowed(std::optional<absl::Time> heard) const;
  // Answered() notes that a locate that was sent at `sent` was answered; Failed() notes that it was
  // not answered in its time.
  void Answered(absl::Time sent, absl::Time now);
  void Failed(absl::Time sent, absl::Time now);

 private:
  const absl::Duration grace_;
  const absl::Duration longest_;
  // Mean and mean deviation of what answers took, as TCP keeps them of round trips (RFC
  // 6298). nullopt: there was none.
  std::optional<absl::Duration> mean_;
  absl::Duration deviation_;
  absl::Duration allowed_ = longest_;
  absl::Time failed_ = absl::InfinitePast();  // Time of the last failure; only later answers count.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_LOCATE_PATIENCE_H_
