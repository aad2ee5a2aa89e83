// Client::State holds a client's parts and checks the arguments of calls before anything is sent.
#ifndef KVTIER_CLIENT_CLIENT_STATE_H_
#define KVTIER_CLIENT_CLIENT_STATE_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/agent_link.h"
#include "client/client.h"
#include "client/key_sequence.h"
#include "client/submitted_calls.h"
#include "client/worker_steps.h"

namespace kvtier {

// Checks a timeout. Errors: kInvalidArgument, it is negative.
absl::Status CheckTimeout(const std::optional<absl::Duration>& timeout);

struct Client::State {
  explicit State(const ClientOptions& options);

  // Returns the time that a call has. Errors: CheckTimeout()'s.
  absl::StatusOr<absl::Duration> Timeout(const std::optional<absl::Duration>& asked) const;
  // Returns the error of a handle that no space has.
  static absl::Status NoSuchSpace(SpaceHandle space);
  // Check the arguments of a call. Errors: kInvalidArgument, naming the argument.
  absl::Status Check(SpaceHandle space, std::span<const EngineKey> keys) const;
  absl::Status Check(std::span<const SpaceHandle> spaces) const;
  absl::Status Check(std::span<const KeySequence> sequences) const;
  // Checks the sequences of a call that looks up or brings blocks. Returns them, each cut to its
  // max_tokens.
  absl::StatusOr<std::vector<KeySequence>> Taken(std::span<const KeySequence> sequences) const;
  absl::Status CheckReserve(std::span<const KeySequence> sequences,
                            const ReserveOptions& options) const;
  // Checks lengths and target. Errors: kInvalidArgument, naming a length that no block of the
  // sequence's space may have, or the GPU target for a space with any_length.
  absl::Status CheckLengths(const KeySequence& sequence, OnboardTarget target) const;
  static absl::Status CheckTicket(const TicketOptions& options);

  const absl::Duration default_timeout;
  const std::shared_ptr<AgentLink> link;
  SubmittedCalls submitted;
  WorkerSteps steps;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CLIENT_STATE_H_
