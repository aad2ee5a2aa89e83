// FakeAgent is an agent for the client's tests, in the test's process: real sockets,
// real shared memory and a real gRPC service over one map of blocks, with no tiers,
// no tenants but one and no checks. It fails on demand in the ways an agent fails.
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
  uint64_t slot_bytes = 8192;  // Blocks may be as long; a multiple of 4096.
  absl::Duration lease = absl::Seconds(10);
  // false: SpaceSpec.codec and any_length are fields that it does not know.
  bool knows_codecs = true;
  uint64_t leased_length = 0;  // Length stated of each block that it leases; 0: the real one.
  bool has_residency = true;
  bool has_gpu_pool = false;  // It has as many slots, in memory of their own.
  // State of every block in answers of Reserve, as ReservedBlock.State has it; 0: the real one.
  int reserve_state = 0;
  // Most leases that a session has; there is no room for what it wants beyond them.
  size_t most_leases = std::numeric_limits<size_t>::max();
  size_t most_spaces = std::numeric_limits<size_t>::max();  // Likewise spaces.
  // OnboardParts: blocks of a sequence in one message, and the fault of the stream.
  size_t part_blocks = 2;
  enum class PartsFault { kNone, kNoEnd, kBackwards, kTwice } parts_fault = PartsFault::kNone;
};

struct FakeAgentCounts {
  size_t sessions = 0;
  size_t leases = 0;
  size_t reservations = 0;
  size_t blocks = 0;
  size_t calls = 0;    // Since construction.
  size_t hanging = 0;  // Calls that hang now.
  // Steps by the signal page, which is one for all sessions; and the latest commit's step.
  uint64_t begun_step = 0;
  uint64_t retired_step = 0;
  uint64_t committed_step = 0;
  size_t damage_reports = 0;        // Leases that workers said were of damaged blocks.
  uint32_t reserve_timeout_ms = 0;  // Longest wait that the last Reserve allowed.
  // Hint of each sequence of the last call that takes some; nullopt: no hint was sent.
  std::vector<std::optional<ReuseHint>> hints;
};

// Thread-safe but for Start() and Kill(), which one thread calls.
class FakeAgent {
 public:
  // Does not start it.
  explicit FakeAgent(FakeAgentOptions options);
  ~FakeAgent();  // Kills it.

  // A new incarnation: new memory, no blocks, ids from 1. REQUIRES: not running.
  void Start();
  // Ends it like kill -9: every socket closes, the memory goes. Idempotent.
  void Kill();

  // Calls are not answered until Resume(); sessions stand. kAllButPing: a stuck
  // executor behind a live server. kParts: OnboardParts alone, behind its first message.
  enum class Hang { kAll, kAllButPing, kParts };
  void HangCalls(Hang hang);
  void Resume();
  // Every call takes this much longer.
  void SlowDown(absl::Duration delay);
  // The descriptor socket accepts and says nothing.
  void HangHandshakes(bool hang);
  // Sessions opened from now on are answered so. kOk: as usual.
  void AnswerSessions(wire::WelcomeCode code);
  // The versions that Challenge and Welcome name. It speaks version 1 whatever they say.
  void SpeakVersions(uint16_t newest, uint16_t oldest);
  // Makes `digest` its build's layout of version 1.
  void LayOutAs(uint64_t digest);
  // Sets the pool's version that answers name and the one that comes with its descriptor; both are
  // 1 first.
  void TellPoolVersions(uint64_t answered, uint64_t handed_out);
  // A larger residency table takes the place of the one that sessions have.
  void GrowResidency();
  // Forgets every session without hanging up: tokens become unknown.
  void ForgetSessions();
  // Calls of the sessions that are open now are answered with this error; Ping is as ever.
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
