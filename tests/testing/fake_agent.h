// FakeAgent is an agent for the client's tests, in the test's process. It has real sockets, real
// shared memory and a real gRPC service over one map of blocks, but no tiers, one tenant and no
// checks. It fails on demand in the ways in which an agent fails.
#ifndef KVTIER_TESTS_TESTING_FAKE_AGENT_H_
#define KVTIER_TESTS_TESTING_FAKE_AGENT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/reuse_hint.h"
#include "proto/session_wire.h"

namespace kvtier::testing {

struct FakeAgentOptions {
  std::string socket_dir;     // Must exist.
  std::string tenant_secret;  // Secret that a session must prove.
  std::string group{};        // Share group that it must name; empty: none.
  bool may_write = true;      // Welcome::may_write.
  size_t slots = 64;
  uint64_t slot_bytes = 8192;  // Size of a slot, so the longest block; a multiple of 4096.
  absl::Duration lease = absl::Seconds(10);
  // Whether the agent knows the fields `codec` and `any_length` of SpaceSpec.
  bool knows_codecs = true;
  uint64_t leased_length = 0;  // Length that answers give for each leased block; 0: its own.
  bool has_residency = true;
  bool has_gpu_pool = false;  // Whether there is a GPU pool, of `slots` slots in another memfd.
  // ReservedBlock.State of every block in answers of Reserve; 0: the block's real state.
  int reserve_state = 0;
  // Maximum number of leases of a session; further blocks get no room.
  size_t most_leases = std::numeric_limits<size_t>::max();
  // Maximum number of spaces of a session.
  size_t most_spaces = std::numeric_limits<size_t>::max();
  // Maximum number of blocks of a sequence in one message of OnboardParts; the stream's fault.
  size_t part_blocks = 2;
  enum class PartsFault { kNone, kNoEnd, kBackwards, kTwice } parts_fault = PartsFault::kNone;
};

struct FakeAgentCounts {
  size_t sessions = 0;
  size_t leases = 0;
  size_t reservations = 0;
  size_t blocks = 0;
  size_t calls = 0;    // Number of calls since construction.
  size_t hanging = 0;  // Calls that hang now.
  // Steps begun and retired, as the signal page that all sessions share says; the last commit's
  // step.
  uint64_t begun_step = 0;
  uint64_t retired_step = 0;
  uint64_t committed_step = 0;
  size_t damage_reports = 0;        // Leases whose blocks workers reported as damaged.
  uint32_t reserve_timeout_ms = 0;  // Longest wait that the last Reserve allowed.
  // Hint of each sequence of the last call that takes hints; nullopt: no hint was sent.
  std::vector<std::optional<ReuseHint>> hints;
};

// FakeAgent is thread-safe, except Start() and Kill(), which one thread calls.
class FakeAgent {
 public:
  // Makes an agent without starting it.
  explicit FakeAgent(FakeAgentOptions options);
  ~FakeAgent();  // Kills it.

  // Starts a new life with new memory, no blocks and ids from 1. REQUIRES: it is not running.
  void Start();
  // Ends it as kill -9 does: every socket closes and the memory is gone. Idempotent.
  void Kill();

  // Calls that are not answered until Resume(), while sessions stay open. kAllButPing: the server
  // lives but its executor is stuck. kParts: only OnboardParts hangs, after its first message.
  enum class Hang { kAll, kAllButPing, kParts };
  void HangCalls(Hang hang);
  void Resume();
  // Makes every call take this much longer.
  void SlowDown(absl::Duration delay);
  // Makes the descriptor socket accept connections and send nothing.
  void HangHandshakes(bool hang);
  // Makes later handshakes of sessions end with this code; kOk: as usual.
  void AnswerSessions(wire::WelcomeCode code);
  // Sets the versions that Challenge and Welcome name. The agent speaks version 1 in any case.
  void SpeakVersions(uint16_t newest, uint16_t oldest);
  // Sets the digest of version 1's layout that Welcome names.
  void LayOutAs(uint64_t digest);
  // Sets the version of the GPU pool that answers to calls name, and the one that is sent with the
  // pool's descriptor. Both are 1 at first.
  void TellPoolVersions(uint64_t answered, uint64_t handed_out);
  // Replaces the residency table that sessions have with a larger one.
  void GrowResidency();
  // Forgets every session without hanging up: tokens become unknown.
  void ForgetSessions();
  // Answers calls of the sessions that are open now with this error, except Ping.
  void BreakSessions(absl::StatusCode code);

  FakeAgentCounts Counts() const;

 private:
  class Incarnation;
  struct Knobs;
  const FakeAgentOptions options_;
  const std::unique_ptr<Knobs> knobs_;
  std::unique_ptr<Incarnation> incarnation_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FAKE_AGENT_H_
