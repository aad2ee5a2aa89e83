// Client gives a worker access to its node's agent: the worker asks for the longest prefix, reads
// it where it lies, and puts the blocks that it computed.
//
// The agent may be absent, slow or killed at any moment. Then every call is a miss within its
// timeout, and at once while the circuit breaker is open; the client reconnects by itself. So the
// calls below fail for one reason only: an argument is not valid (kInvalidArgument, naming it).
//
// In a child process that was forked while its parent had a client, every call is a miss for ever,
// also through clients that the child opens itself (client/fork_guard.h). Open the first client
// after the fork, or start the child by exec.
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
  // Timeout of calls that are given none. Positive.
  absl::Duration default_timeout = absl::Seconds(2);
  // Timeout of one try to connect; Open() waits this long for the first. Positive.
  absl::Duration connect_timeout = absl::Seconds(1);
  BreakerOptions breaker{};
  // How the GPU pool is mapped. True: this worker maps it on a device of its own, by the handles of
  // gpu_memory(), which is necessary if the pool is a GPU's own memory. Blocks of target kGpu then
  // have offsets in the pool and no bytes, and TakeSlots() grants none. False: the client maps the
  // pool into this process; a pool that cannot be mapped is a miss.
  bool gpu_by_device = false;
  // GPU whose pool the worker asks for on a node with several: its own GPU. None: the first pool
  // that the node has for this tenant. A node without a pool on that GPU has none for the worker.
  DeviceUuid gpu_device{};

  // Errors: kInvalidArgument, naming the field and the value.
  absl::Status Validate() const;
};

// MatchedPrefix tells where the longest known prefix is. It is a guess, since blocks may leave;
// only Onboard makes sure.
struct MatchedPrefix {
  size_t blocks = 0;        // Leading blocks that this node or another has.
  size_t local_blocks = 0;  // Leading blocks in this node's tiers.
  std::vector<Tier> tiers;  // Best tier of each of `blocks`, on the node that has it.
};

struct MatchOptions {
  std::optional<absl::Duration> timeout{};  // Longest wait; absent: ClientOptions::default_timeout.
  bool local_only = false;                  // Whether the coordinator is never asked.
};

enum class OnboardTarget : uint8_t { kHost, kGpu };

struct OnboardOptions {
  // Choose a time no longer than recomputing would take: blocks that are not ready by then are
  // misses.
  std::optional<absl::Duration> timeout{};
  OnboardTarget target = OnboardTarget::kHost;
  bool local_only = false;  // Whether no other node is ever asked.
};

struct ReserveOptions {
  std::optional<EngineKey> parent{};  // Key before keys[0] of a run; absent: keys[0] is a root.
  OnboardTarget target = OnboardTarget::kHost;
  std::optional<absl::Duration> timeout{};
  // Length of each block of a run in a space with any_length, as KeySequence::lengths.
  std::span<const uint64_t> lengths{};
};

// Thread-safe. `keys` are in prefix order, kMaxKeys at most. There are 1 to kMaxSequences
// `sequences`, with kMaxKeys keys together at most. With a timeout of 0 a call waits for no block,
// disk or node: it returns what is here now, and the agent has kAnswerTime (call_deadline.h) to
// answer. A negative timeout is refused.
class Client {
 public:
  static constexpr size_t kMaxKeys = 8192;         // Keys of one call.
  static constexpr size_t kMaxSequences = 256;     // Sequences of one call.
  static constexpr uint32_t kMaxRedemptions = 64;  // Redemptions of one ticket.
  static constexpr absl::Duration kMaxTicketLifetime = absl::Minutes(1);
  static constexpr absl::Duration kMinTtl = absl::Seconds(1);  // Time to live of a kept prefix.
  static constexpr absl::Duration kMaxTtl = absl::Hours(1);
  static constexpr size_t kMaxSubmitted = 256;                      // Submitted calls in progress.
  static constexpr absl::Duration kMaxTimeout = absl::Seconds(60);  // Longer ones are cut.

  // Waits for the first try to connect. Errors: kInvalidArgument only.
  static absl::StatusOr<std::unique_ptr<Client>> Open(const ClientOptions& options);
  // Ends the session, cancels submitted calls and waits for their callbacks, for connect_timeout
  // at most. REQUIRES: no call is in progress in another thread. OnboardedBlocks and
  // ReservedBlocks may outlive the client: valid() is false then.
  ~Client();

  // Registers a space and returns its handle. Works while the agent is away: the agent is told when
  // it comes. Waits for the agent's answer, `timeout` at most; absent: default_timeout. 0: the
  // agent is told in the background, and calls made before it knows the space are misses. Errors:
  // kInvalidArgument, naming the field, or a negative timeout; kResourceExhausted, more than
  // SpaceTable::kMaxSpaces.
  absl::StatusOr<SpaceHandle> RegisterSpace(const SpaceSpec& spec,
                                            std::optional<absl::Duration> timeout = {});
  // Forgets a space, which makes room for another. `space` is no valid handle any more, also for
  // other parts of the program that registered the same spec. Leases and reservations of the space
  // stay with the caller, and its blocks stay where they are. Never waits.
  absl::Status UnregisterSpace(SpaceHandle space);

  // Returns the spec that the space was registered with. Never waits. Errors also: kUnavailable,
  // the process was forked.
  absl::StatusOr<SpaceSpec> SpecOf(SpaceHandle space) const;
  // Returns how long a call with this `timeout` waits at most. Never waits. Errors:
  // kInvalidArgument, it is negative.
  absl::StatusOr<absl::Duration> TimeoutOf(const std::optional<absl::Duration>& timeout) const;
  // Returns how many blocks of the space the current agent has room for, or why the space is not
  // usable. Never waits.
  absl::StatusOr<SpaceLimits> Limits(SpaceHandle space) const;

  // Looks `keys`, in any order, up in this node's shared table, without a call: `residences` gets
  // an entry for each key. The answer is a guess, since blocks may leave; only Onboard makes sure.
  // Never waits and allocates nothing. Without an agent every key is kAbsent, since no block can be
  // had. Errors also: kInvalidArgument, `residences` has another size.
  absl::Status Residences(SpaceHandle space, std::span<const EngineKey> keys,
                          std::span<Residence> residences) const;
  // Looks up a run in the same table and returns how many leading keys are not kAbsent.
  absl::StatusOr<size_t> ResidentRun(SpaceHandle space, std::span<const EngineKey> keys) const;

  // Returns the leading blocks that are in host memory (or the GPU pool) before the timeout,
  // verified and leased to the caller.
  absl::StatusOr<OnboardedBlocks> Onboard(SpaceHandle space, std::span<const EngineKey> keys,
                                          const OnboardOptions& options = {});
  absl::StatusOr<MatchedPrefix> Match(SpaceHandle space, std::span<const EngineKey> keys,
                                      const MatchOptions& options = {});
  // Matches the run `keys` for all ranks of a group, each of which has a space of its own. Returns
  // the leading blocks that every rank has, each with the farthest tier that a rank has it in.
  // spaces.size() x keys.size() is kMaxKeys at most.
  absl::StatusOr<MatchedPrefix> MatchGroup(std::span<const SpaceHandle> spaces,
                                           std::span<const EngineKey> keys,
                                           const MatchOptions& options = {});
  // Reserves slots for new blocks; the result has one entry for each key. Errors also:
  // kInvalidArgument, a length is missing, or is none that blocks of the space may have.
  absl::StatusOr<ReservedBlocks> Reserve(SpaceHandle space, std::span<const EngineKey> keys,
                                         const ReserveOptions& options = {});
  // Onboard() and Reserve() serve several runs and sets, of any spaces of this client, in one call.
  // Onboard() returns one result for each sequence, Reserve() one entry for each key, sequence by
  // sequence. Errors also: kInvalidArgument, options.parent or options.lengths is set: these are in
  // each sequence.
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
  // Leases the blocks that a ticket holds, once for each rank, and returns one result for each of
  // its sequences. `spaces` names the space of each sequence again. A ticket that is unknown, over,
  // another tenant's or redeemed by this rank is a miss.
  absl::StatusOr<std::vector<OnboardedBlocks>> Redeem(
      const TicketId& id, uint32_t rank, std::span<const SpaceHandle> spaces,
      const std::optional<absl::Duration>& timeout = {});
  // Ends a ticket before its time. Never blocks.
  void ReleaseTicket(const TicketId& id);
  // Keeps those of the sequences' blocks that the node has in host memory for options.ttl, as many
  // as fit into the tenant's quota: a prompt cache that is not evicted. Errors: kInvalidArgument,
  // naming the field.
  absl::StatusOr<KeptPrefix> Keep(std::span<const KeySequence> sequences,
                                  const KeepOptions& options = {});
  // Returns all prefixes that the tenant keeps on the node, whichever worker asked for them.
  absl::StatusOr<KeptList> ListKept(const std::optional<absl::Duration>& timeout = {});
  // Ends the kept prefix of that id before its time; an `id` of 0 ends all that the tenant has on
  // the node. Returns how many ended; nullopt: no agent answered.
  absl::StatusOr<std::optional<size_t>> EndKept(uint64_t id,
                                                const std::optional<absl::Duration>& timeout = {});
  // Takes up to `slots` slots of the GPU pool as the caller's own KV memory, for blocks of this
  // space; PagedKv keeps sequences in them. Returns none without an agent, without a pool for this
  // space that the host reaches, or without room. Errors also: kInvalidArgument, `slots` is 0.
  absl::StatusOr<GrantedSlots> TakeSlots(SpaceHandle space, uint32_t slots);
  // Starts bringing blocks to host memory; returns how many are there or on their way.
  absl::StatusOr<size_t> Prefetch(SpaceHandle space, std::span<const EngineKey> keys,
                                  const MatchOptions& options = {});
  absl::StatusOr<size_t> Prefetch(std::span<const KeySequence> sequences,
                                  const MatchOptions& options = {});

  // Tells this node what the engine knows now about the next use of blocks that the node has: each
  // sequence's hint, for all of its keys. This does not count as a use of them. Returns how many
  // are in the node's memory; 0 if no agent answered, which costs hits at worst.
  absl::StatusOr<size_t> Advise(std::span<const KeySequence> sequences,
                                const std::optional<absl::Duration>& timeout = {});
  // Drops blocks of the tenant from every tier of this node for ever: they are not found after the
  // next restart either. Other nodes keep theirs.
  absl::StatusOr<DeletedBlocks> Delete(std::span<const KeySequence> sequences,
                                       const std::optional<absl::Duration>& timeout = {});
  // Drops the named blocks and all blocks of this node that continue them.
  absl::StatusOr<DeletedBlocks> DropPrefix(std::span<const KeySequence> sequences,
                                           const std::optional<absl::Duration>& timeout = {});

  // The Submit functions make a call above without waiting. `done` is called exactly once, by the
  // client's own thread or before the function returns; it must not block and must not destroy the
  // client. Errors, after which `done` is not called: kInvalidArgument; kResourceExhausted,
  // kMaxSubmitted calls are in progress (retry when one is done).
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
  // Onboards in parts: blocks that are in host memory come at once, while the rest is on its way.
  // The client's own thread calls `on_part`, which must not block, as blocks become ready; then
  // `done` once, with the outcome of each sequence. A part extends the prefix of its run, or has
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
  // Commits without waiting. Takes `blocks` only if it returns OK.
  absl::Status SubmitCommit(ReservedBlocks&& blocks, absl::AnyInvocable<void(size_t)> done,
                            const CommitOptions& options = {});

  // Begins a step of a worker that computes in the GPU pool's slots and returns its number; 0: the
  // agent keeps no steps of this worker. Until EndStep() the worker may read leased slots and write
  // reserved ones; slots that it releases meanwhile are used again only after EndStep().
  uint64_t BeginStep();
  // Tells the agent that `step` and all steps before it have ended.
  void EndStep(uint64_t step);
  // Returns the host memory of the current session, for a worker that pins it for a device. Without
  // an agent both mappings are null.
  HostMemory host_memory() const;
  // Returns the GPU pool of the current session, for a worker that maps it on a GPU. Null: no
  // agent, or no pool for this tenant.
  std::shared_ptr<const GpuMemory> gpu_memory() const;

  // Makes one empty call, to measure the time to the agent and back. Errors: kUnavailable, no agent
  // or the breaker is open; kDeadlineExceeded; kInvalidArgument, `timeout` is not positive.
  absl::Status Ping(absl::Duration timeout);
  bool connected() const;  // Returns whether the client is connected to an agent.
  ClientStats Stats() const;

 private:
  struct State;
  explicit Client(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CLIENT_H_
