// Client is how a worker uses its node's agent: ask for the longest prefix, read it
// where it lies, put what was computed.
//
// The agent may be absent, slow or killed at any moment. Then everything is a miss,
// inside its timeout, and at once while the circuit breaker is open; the client finds
// the agent again by itself. So the calls below fail for one reason only, that the
// caller asked for something that cannot be (kInvalidArgument, naming it).
//
// In a child that was forked while its parent had a client, everything is a miss for ever, of
// clients that are opened there, too (client/fork_guard.h).
//
// The ten lines a worker needs are examples/minimal_worker.cc; docs/design/client.md
// says how it works inside.
#ifndef KVTIER_CLIENT_CLIENT_H_
#define KVTIER_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/block_source.h"
#include "client/circuit_breaker.h"
#include "client/client_stats.h"
#include "client/gpu_memory.h"
#include "client/granted_slots.h"
#include "client/host_memory.h"
#include "client/kept_prefix.h"
#include "client/key_sequence.h"
#include "client/onboarded_blocks.h"
#include "client/onboarded_part.h"
#include "client/reserved_blocks.h"
#include "client/residence.h"
#include "client/space_limits.h"
#include "client/ticket.h"
#include "core/block_key.h"
#include "core/space.h"
#include "core/tier.h"

namespace kvtier {

struct ClientOptions {
  std::string socket_dir{};        // The agent's --socket_dir.
  std::string tenant = "default";  // 1..63 bytes.
  std::string tenant_secret{};     // Proves the tenant; never sent. Empty: the open tenant.
  // Share group whose blocks the client works on, of which the tenant is a member: it reads them,
  // and writes them if it may. 1..63 bytes; empty: the tenant's own blocks.
  std::string group{};
  // Of Match, Reserve, Commit, Prefetch and RegisterSpace, where no other is given. Positive.
  absl::Duration default_timeout = absl::Seconds(2);
  // Of one try to connect; Open() waits this long for the first. Positive.
  absl::Duration connect_timeout = absl::Seconds(1);
  BreakerOptions breaker{};
  // This worker maps the GPU pool on a device of its own, by the handles of gpu_memory(), as
  // it must where the pool is a GPU's own memory. Blocks of target kGpu then have offsets in
  // the pool and no bytes, and TakeSlots() grants none. False: the pool is mapped here, and
  // one that cannot be is a miss.
  bool gpu_by_device = false;
  // GPU whose pool the worker asks for, of a node with several: its own. None: the first that the
  // node has for this tenant. A node without a pool on that GPU has none for the worker.
  DeviceUuid gpu_device{};

  // Errors: kInvalidArgument, naming the field and the value.
  absl::Status Validate() const;
};

// Where the longest known prefix is. A guess, which Onboard turns into a promise.
struct MatchedPrefix {
  size_t blocks = 0;        // Leading blocks, counting other nodes.
  size_t local_blocks = 0;  // The same, in this node's tiers.
  std::vector<Tier> tiers;  // Best tier of each of `blocks`; of a remote one, there.
};

struct MatchOptions {
  std::optional<absl::Duration> timeout{};  // Absent: ClientOptions::default_timeout.
  bool local_only = false;                  // Never ask the coordinator.
};

enum class OnboardTarget : uint8_t { kHost, kGpu };

struct OnboardOptions {
  // No longer than recomputing would take: what is not ready by then is a miss.
  std::optional<absl::Duration> timeout{};
  OnboardTarget target = OnboardTarget::kHost;
  bool local_only = false;  // Never ask another node.
};

struct ReserveOptions {
  std::optional<EngineKey> parent{};  // Of keys[0] of a run; absent: a root.
  OnboardTarget target = OnboardTarget::kHost;
  std::optional<absl::Duration> timeout{};
  // Of a run in a space with any_length: KeySequence::lengths.
  std::span<const uint64_t> lengths{};
};

// Thread-safe. `keys` are in prefix order, kMaxKeys at most; `sequences` 1 to kMaxSequences, with
// kMaxKeys keys together. A timeout of 0 waits for no block, disk or node: the call says what is
// here now, and the agent has kAnswerTime (call_deadline.h) to answer. A negative one is refused.
class Client {
 public:
  static constexpr size_t kMaxKeys = 8192;         // Of one call.
  static constexpr size_t kMaxSequences = 256;     // Of one call.
  static constexpr uint32_t kMaxRedemptions = 64;  // Of one ticket.
  static constexpr absl::Duration kMaxTicketLifetime = absl::Minutes(1);
  static constexpr absl::Duration kMinTtl = absl::Seconds(1);  // Of what is kept.
  static constexpr absl::Duration kMaxTtl = absl::Hours(1);
  static constexpr size_t kMaxSubmitted = 256;                      // Submitted calls under way.
  static constexpr absl::Duration kMaxTimeout = absl::Seconds(60);  // Longer ones are cut.

  // Waits for the first try to connect. Errors: kInvalidArgument only.
  static absl::StatusOr<std::unique_ptr<Client>> Open(const ClientOptions& options);
  // Hangs up; cancels submitted calls and waits for their callbacks. Waits for a
  // connect_timeout at most. REQUIRES: no call is in progress in another thread. What
  // was onboarded or reserved may outlive the client: valid() is false then.
  ~Client();

  // Works while the agent is away: it is told when it comes. Waits for the agent's answer,
  // `timeout` at most; absent: default_timeout. 0: the agent is told in the background, and calls
  // that come before it knows the space are misses. Errors: kInvalidArgument, naming the field, or
  // a negative timeout; kResourceExhausted, more than SpaceTable::kMaxSpaces.
  absl::StatusOr<SpaceHandle> RegisterSpace(const SpaceSpec& spec,
                                            std::optional<absl::Duration> timeout = {});
  // Makes room for another space: `space` is nobody's handle any more, also of other parts of the
  // program that registered the same spec. What was leased or reserved of it stays the caller's,
  // and its blocks stay cached. Never waits.
  absl::Status UnregisterSpace(SpaceHandle space);

  // Returns the spec that the space was registered with. Never waits. Errors also: kUnavailable,
  // the process was forked.
  absl::StatusOr<SpaceSpec> SpecOf(SpaceHandle space) const;
  // Returns how long a call with this `timeout` waits at most. Never waits. Errors:
  // kInvalidArgument, it is negative.
  absl::StatusOr<absl::Duration> TimeoutOf(const std::optional<absl::Duration>& timeout) const;
  // What of the space fits the agent of now, or why it is not usable. Never waits.
  absl::StatusOr<SpaceLimits> Limits(SpaceHandle space) const;

  // What this node has of `keys`, in any order, by its table and without a call: a guess, which
  // Onboard turns into a promise. Never waits and allocates nothing. Without an agent everything is
  // kAbsent, since nothing can be had. `residences` gets an entry for each key. Errors also:
  // kInvalidArgument, it has another size.
  absl::Status Residences(SpaceHandle space, std::span<const EngineKey> keys,
                          std::span<Residence> residences) const;
  // The same of a run: counts the leading keys that are not kAbsent.
  absl::StatusOr<size_t> ResidentRun(SpaceHandle space, std::span<const EngineKey> keys) const;

  // The leading run that is in host memory (or the GPU pool) before the timeout,
  // verified and leased to the caller.
  absl::StatusOr<OnboardedBlocks> Onboard(SpaceHandle space, std::span<const EngineKey> keys,
                                          const OnboardOptions& options = {});
  absl::StatusOr<MatchedPrefix> Match(SpaceHandle space, std::span<const EngineKey> keys,
                                      const MatchOptions& options = {});
  // The same for all ranks of a group, of which each has a space of its own: what every one of them
  // has of the run `keys`, each block in its worst tier. spaces.size() x keys.size() is kMaxKeys at
  // most.
  absl::StatusOr<MatchedPrefix> MatchGroup(std::span<const SpaceHandle> spaces,
                                           std::span<const EngineKey> keys,
                                           const MatchOptions& options = {});
  // Room for new blocks, one entry for each key. Errors also: kInvalidArgument, a length is
  // missing, or is none that blocks of the space may have.
  absl::StatusOr<ReservedBlocks> Reserve(SpaceHandle space, std::span<const EngineKey> keys,
                                         const ReserveOptions& options = {});
  // The same of several runs and sets, of any spaces of this client, in one call: one result for
  // each sequence; of Reserve() one entry for each key, sequence by sequence. Errors also:
  // kInvalidArgument, options.parent or options.lengths is set, which each sequence has for itself.
  absl::StatusOr<std::vector<OnboardedBlocks>> Onboard(std::span<const KeySequence> sequences,
                                                       const OnboardOptions& options = {});
  absl::StatusOr<std::vector<MatchedSequence>> Match(std::span<const KeySequence> sequences,
                                                     const MatchOptions& options = {});
  absl::StatusOr<ReservedBlocks> Reserve(std::span<const KeySequence> sequences,
                                         const ReserveOptions& options = {});
  // Brings blocks to host memory as Onboard() does, and holds them for other processes of the
  // tenant until these have redeemed the ticket or its lifetime is over. Errors: kInvalidArgument,
  // naming the field.
  absl::StatusOr<PinTicket> TakeTicket(std::span<const KeySequence> sequences,
                                       const TicketOptions& options = {});
  // Leases what a ticket holds, once for each rank: one result for each of its sequences, whose
  // spaces are named again. A ticket that is unknown, over, another tenant's or redeemed by this
  // rank is a miss.
  absl::StatusOr<std::vector<OnboardedBlocks>> Redeem(
      const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
      const std::optional<absl::Duration>& timeout = {});
  // Ends a ticket before its time. Never blocks.
  void ReleaseTicket(const TicketId& id);
  // Keeps what the node has of the sequences in its host memory for options.ttl, as much as fits
  // into the tenant's quota there: a prompt cache that is not evicted. Errors: kInvalidArgument,
  // naming the field.
  absl::StatusOr<KeptPrefix> Keep(std::span<const KeySequence> sequences,
                                  const KeepOptions& options = {});
  // Returns what the tenant keeps on the node, whoever of it asked for it.
  absl::StatusOr<KeptList> ListKept(const std::optional<absl::Duration>& timeout = {});
  // Ends the kept prefix of that id before its time, 0: all of the tenant's on the node. Returns
  // how many that were; nullopt: no agent answered.
  absl::StatusOr<std::optional<size_t>> EndKept(uint64_t id,
                                                const std::optional<absl::Duration>& timeout = {});
  // Slots of the GPU pool as KV memory of the caller's own, `slots` of them or fewer, for
  // blocks of this space; PagedKv keeps sequences in them. None: no agent, no pool for this
  // space that the host reaches, or no room. Errors also: kInvalidArgument, `slots` is 0.
  absl::StatusOr<GrantedSlots> TakeSlots(SpaceHandle space, uint32_t slots);
  // Starts bringing blocks to host memory; returns how many are there or on their way.
  absl::StatusOr<size_t> Prefetch(SpaceHandle space, std::span<const EngineKey> keys,
                                  const MatchOptions& options = {});
  absl::StatusOr<size_t> Prefetch(std::span<const KeySequence> sequences,
                                  const MatchOptions& options = {});

  // Tells this node what the engine knows now about the next use of blocks that it has: each
  // sequence's hint, of all of its keys. That is no use of them. Returns how many are in the node's
  // memory; 0 where no agent answered, which costs hits at worst.
  absl::StatusOr<size_t> Advise(std::span<const KeySequence> sequences,
                                const std::optional<absl::Duration>& timeout = {});
  // Drops blocks of the tenant's own from every tier of this node, for good: they are not found
  // after the next restart either. Other nodes keep theirs.
  absl::StatusOr<DeletedBlocks> Delete(std::span<const KeySequence> sequences,
                                       const std::optional<absl::Duration>& timeout = {});
  // The same with all that descends from the named blocks: whatever continues them on this node.
  absl::StatusOr<DeletedBlocks> DropPrefix(std::span<const KeySequence> sequences,
                                           const std::optional<absl::Duration>& timeout = {});

  // Most of the calls above without waiting. `done` is called exactly once, by the client's own
  // thread or before the function returns; it must not block and must not destroy the client.
  // Errors, and then `done` is not called: kInvalidArgument; kResourceExhausted,
  // kMaxSubmitted are under way (retry when one is done).
  absl::Status SubmitOnboard(SpaceHandle space, std::span<const EngineKey> keys,
                             const OnboardOptions& options,
                             absl::AnyInvocable<void(OnboardedBlocks)> done);
  absl::Status SubmitMatch(SpaceHandle space, std::span<const EngineKey> keys,
                           const MatchOptions& options,
                           absl::AnyInvocable<void(MatchedPrefix)> done);
  absl::Status SubmitReserve(SpaceHandle space, std::span<const EngineKey> keys,
                             const ReserveOptions& options,
                             absl::AnyInvocable<void(ReservedBlocks)> done);
  absl::Status SubmitPrefetch(SpaceHandle space, std::span<const EngineKey> keys,
                              const MatchOptions& options, absl::AnyInvocable<void(size_t)> done);
  absl::Status SubmitOnboard(std::span<const KeySequence> sequences, const OnboardOptions& options,
                             absl::AnyInvocable<void(std::vector<OnboardedBlocks>)> done);
  // The same in parts: what is in host memory comes at once, while the rest is on its way.
  // `on_part` is called as blocks become ready, by the client's own thread, and must not block;
  // then `done` once, with what came of each sequence. A part extends the prefix of its run, or has
  // blocks of a set in any order, and has leases of its own. Errors also: kInvalidArgument, the
  // target is not host memory.
  absl::Status SubmitOnboardParts(std::span<const KeySequence> sequences,
                                  const OnboardOptions& options,
                                  absl::AnyInvocable<void(OnboardedPart)> on_part,
                                  absl::AnyInvocable<void(std::vector<OnboardedInParts>)> done);
  absl::Status SubmitMatch(std::span<const KeySequence> sequences, const MatchOptions& options,
                           absl::AnyInvocable<void(std::vector<MatchedSequence>)> done);
  absl::Status SubmitReserve(std::span<const KeySequence> sequences, const ReserveOptions& options,
                             absl::AnyInvocable<void(ReservedBlocks)> done);
  absl::Status SubmitPrefetch(std::span<const KeySequence> sequences, const MatchOptions& options,
                              absl::AnyInvocable<void(size_t)> done);
  absl::Status SubmitAdvise(std::span<const KeySequence> sequences,
                            const std::optional<absl::Duration>& timeout,
                            absl::AnyInvocable<void(size_t)> done);
  absl::Status SubmitDelete(std::span<const KeySequence> sequences,
                            const std::optional<absl::Duration>& timeout,
                            absl::AnyInvocable<void(DeletedBlocks)> done);
  absl::Status SubmitTakeTicket(std::span<const KeySequence> sequences,
                                const TicketOptions& options,
                                absl::AnyInvocable<void(PinTicket)> done);
  absl::Status SubmitRedeem(const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
                            const std::optional<absl::Duration>& timeout,
                            absl::AnyInvocable<void(std::vector<OnboardedBlocks>)> done);
  // Takes `blocks` only when it returns OK.
  absl::Status SubmitCommit(ReservedBlocks&& blocks, absl::AnyInvocable<void(size_t)> done,
                            const CommitOptions& options = {});

  // Steps of a worker that computes in the GPU pool's slots. Between the two it may read
  // what is leased and write what is reserved; what is let go of meanwhile is used again
  // only after EndStep(). 0: the agent keeps no steps of ours.
  uint64_t BeginStep();
  // `step` and all before it have ended.
  void EndStep(uint64_t step);
  // Host memory as the session of now was handed it, for a worker that pins it for a
  // device. No agent: both are null.
  HostMemory host_memory() const;
  // The pool as the session of now was handed it, for a worker that maps it on a GPU. Null: no
  // agent, or no pool for this tenant.
  std::shared_ptr<const GpuMemory> gpu_memory() const;

  // One empty call, to measure the way to the agent. Errors: kUnavailable, no agent or
  // the breaker is open; kDeadlineExceeded; kInvalidArgument, `timeout` is not positive.
  absl::Status Ping(absl::Duration timeout);
  bool connected() const;  // The agent's socket stands at this moment.
  ClientStats Stats() const;

 private:
  struct State;
  explicit Client(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CLIENT_H_
