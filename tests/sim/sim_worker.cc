#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "tests/sim/service_flows.h"
#include "tests/sim/workload.h"
#include "tests/testing/blocks.h"

namespace kvtier::sim {
namespace {

// Timeout of a put by a worker that wants the blocks kept.
constexpr absl::Duration kPutTimeout = absl::Seconds(2);

// Code of a result for the trace; the text of a status may change, its code not.
template <typename T>
uint64_t CodeOf(const absl::StatusOr<T>& result) {
  return static_cast<uint64_t>(result.status().code());
}

}  // namespace

struct SimWorker::Reserving {
  std::vector<EngineKey> keys;  // Keys of `blocks`.
  std::vector<ReservedBlock> blocks;
};

SimWorker::SimWorker(const World& world, SimNode* node, const Identity& identity, uint64_t seed)
    : world_(world),
      node_(node),
      identity_(identity),
      space_(Space(identity.space)),
      domain_(static_cast<DomainId>(identity.tenant)),
      random_(seed),
      keeps_(~seed),
      scope_(std::make_unique<TaskScope>(world.executor)) {}

void SimWorker::Live() {
  random_behaviour_ = true;
  scope_->Spawn(Converse());
}

bool SimWorker::Connected() const {
  return session_.has_value() && node_->serves() && node_->incarnation() == incarnation_;
}

Task<bool> SimWorker::Connect() {
  if (Connected()) co_return true;
  co_await SleepUntil(world_.executor, world_.executor->Now() + kCallTravel);
  if (!node_->serves()) co_return false;
  Agent& agent = node_->agent();
  SessionToken token{};
  for (uint8_t& byte : token) byte = static_cast<uint8_t>(random_.Next());
  const Tenant& tenant = agent.options().tenants.OfDomain(static_cast<DomainId>(identity_.tenant));
  const absl::StatusOr<SessionId> session =
      agent.sessions().Open(SessionTenants::Own(tenant), token);
  if (!session.ok()) co_return false;
  session_ = *session;
  if (order_ == nullptr || incarnation_ != node_->incarnation()) {
    order_ = node_->NewWorkerOrder(
        absl::StrCat("a worker of tenant ", identity_.tenant, ", space ", identity_.space));
  }
  incarnation_ = node_->incarnation();
  space_id_ = agent.sessions().table().AddSpace(*session_, space_).value();
  // A worker without a region puts nothing.
  if (agent.sessions().staging().enabled())
    agent.sessions().staging().RegionOf(*session_, domain_).status().IgnoreError();
  page_ = nullptr;
  begun_ = 0;
  // Some workers have no signal page, like those of the first release. Some workers in host memory
  // have one: their device writes there, in steps.
  if (random_.Draw(identity_.target == Tier::kGpu ? 0.8 : 0.4)) {
    const absl::StatusOr<const SignalPage*> page = agent.sessions().AttachToGpu(*session_);
    if (page.ok()) page_ = *page;
  }
  order_->IsTold();
  world_.trace->Add("session", {node_->number(), identity_.tenant, identity_.space});
  co_return true;
}

Task<void> SimWorker::Disconnect() {
  co_await SleepUntil(world_.executor, world_.executor->Now() + kCallTravel);
  if (Connected()) {
    order_->Tells();
    if (node_->agent().CloseSession(*session_)) node_->agent().sessions().WritesOver(*session_);
  }
  session_.reset();
}

void SimWorker::Die(absl::Duration hangup) {
  // Requests on their way die with the worker; requests that its agent already runs do not.
  scope_ = std::make_unique<TaskScope>(world_.executor);
  if (!session_.has_value()) return;
  const auto close = [node = node_, session = *session_, incarnation = incarnation_,
                      order = order_] {
    const bool same = node->running() && node->incarnation() == incarnation;
    if (!same) return;
    order->HungUp();
    node->agent().CloseSession(session);
  };
  const auto end = [node = node_, session = *session_, incarnation = incarnation_, order = order_] {
    const bool same = node->running() && node->incarnation() == incarnation;
    if (!same) return;
    order->Gone();
    node->agent().sessions().ProcessGone(session);
  };
  // The worker's device goes on with its writes after the hangup.
  const auto write = [node = node_, session = *session_, incarnation = incarnation_,
                      target = identity_.target, domain = domain_, space = identity_.space,
                      order = order_, put = std::exchange(writing_, nullptr)] {
    const bool same = node->running() && node->incarnation() == incarnation;
    if (!same || put == nullptr) return;
    order->Launches();
    for (size_t i = 0; i < put->blocks.size(); ++i) {
      const uint64_t length = LengthOf(space, put->keys[i]);
      const std::span<std::byte> slot =
          node->WriteMemory(session, target, domain, put->blocks[i].offset, length);
      order->Touches(WorkerOrder::By::kCompute, WorkerOrder::Access::kWrite, slot);
      std::ranges::fill(slot, std::byte{0xcd});
    }
  };
  session_.reset();
  order_ = nullptr;  // The next process has another order.
  world_.executor->PostAt(world_.executor->Now() + hangup, close);
  world_.executor->PostAt(world_.executor->Now() + 3 * hangup / 2, write);
  // The process ends later than its sockets.
  world_.executor->PostAt(world_.executor->Now() + 2 * hangup, end);
}

Task<void> SimWorker::Converse() {
  while (true) {
    const absl::Duration pause =
        random_.Between(absl::Milliseconds(1), absl::Milliseconds(random_.Draw(0.05) ? 900 : 40));
    co_await SleepUntil(world_.executor, world_.executor->Now() + pause);
    const bool connected = co_await Connect();
    if (!connected) continue;
    const std::vector<EngineKey> keys = DrawConversation(&random_);
    hint_ = DrawHint(&random_);
    if (random_.Draw(0.1)) co_await Match(keys);
    if (random_.Draw(0.1)) co_await Prefetch(keys);
    const absl::Duration timeout =
        random_.Between(absl::Microseconds(100), absl::Milliseconds(random_.Draw(0.2) ? 1500 : 60));
    const absl::Duration hold = DrawHold();
    const size_t had = co_await Get(keys, timeout, hold);
    if (keeps_.Draw(0.05)) co_await KeepOrDrop(keys);
    const bool advises = random_.Draw(0.2);
    if (had == keys.size()) {
      if (advises) co_await Advise(keys);
      continue;
    }
    // Now and then its advice overtakes the commit.
    if (advises && random_.Draw(0.3)) scope_->Spawn(Advise(keys));
    const size_t put = co_await Put(keys, had);
    world_.trace->Add("turn", {node_->number(), identity_.tenant, identity_.space, had, put});
    if (advises) co_await Advise(keys);
    if (random_.Draw(0.02)) co_await Disconnect();
  }
}

uint64_t SimWorker::BeginStep() {
  if (page_ == nullptr || !Connected()) return 0;
  page_->word(static_cast<size_t>(StepWord::kBegun))->store(++begun_);
  order_->Launches();
  return begun_;
}

void SimWorker::EndStep(uint64_t step) {
  // A signal page ends with its agent, or with its session.
  if (step == 0 || !Connected()) return;
  SignalWord* const retired = page_->word(static_cast<size_t>(StepWord::kRetired));
  order_->Retires(retired);
  retired->store(step);
}

absl::Duration SimWorker::DrawHold() {
  const uint64_t kind = random_.Below(100);
  if (kind < 85) return random_.Between(absl::ZeroDuration(), absl::Milliseconds(20));
  if (kind < 98) return random_.Between(absl::ZeroDuration(), absl::Seconds(2));
  return random_.Between(kLeaseDuration - absl::Seconds(2), kLeaseDuration + absl::Seconds(2));
}

absl::StatusOr<BlockRun> SimWorker::Name(const std::vector<EngineKey>& keys, size_t from) const {
  std::optional<EngineKey> parent;
  if (from > 0) parent = keys[from - 1];
  absl::StatusOr<BlockRun> run = node_->agent().sessions().table().NameRun(
      *session_, space_id_, parent, std::span(keys).subspan(from));
  if (run.ok()) run->hint = hint_;
  return run;
}

Task<void> SimWorker::Match(std::vector<EngineKey> keys) {
  if (!Connected()) co_return;
  const BlockRun run = *Name(keys, 0);
  const absl::Duration timeout = random_.Between(absl::ZeroDuration(), absl::Milliseconds(100));
  Request<std::vector<Matched>> request{.name = "match", .order = order_, .timeout = timeout};
  bool lost = false;  // Whether the agent called the coordinator silent.
  request.start = [run, timeout, &lost](Agent& agent) {
    lost = !agent.reporter()->connected();
    return agent.flows().matcher.Match({run}, timeout);
  };
  const absl::Time start = world_.executor->Now();
  const absl::StatusOr<std::vector<Matched>> matched = co_await CallAgent<std::vector<Matched>>(
      world_.executor, node_, world_.oracle, std::move(request));
  world_.oracle->Expect(!lost || world_.executor->Now() == start + 2 * kCallTravel,
                        "a match waits for a coordinator that its agent calls silent");
  world_.trace->Add(
      "match", {node_->number(), CodeOf(matched), matched.ok() ? (*matched)[0].local_blocks : 0,
                matched.ok() ? (*matched)[0].tiers.size() : 0});
}

Task<void> SimWorker::Prefetch(std::vector<EngineKey> keys) {
  if (!Connected()) co_return;
  const BlockRun run = *Name(keys, 0);
  const bool local_only = random_.Draw(0.3);
  Request<size_t> request{.name = "prefetch", .order = order_, .timeout = kPrefetchTimeout};
  request.start = [run, local_only](Agent& agent) {
    return agent.flows().onboarder.Prefetch(run, local_only);
  };
  const absl::StatusOr<size_t> coming =
      co_await CallAgent<size_t>(world_.executor, node_, world_.oracle, std::move(request));
  world_.trace->Add("prefetch", {node_->number(), CodeOf(coming), coming.ok() ? *coming : 0});
}

Task<void> SimWorker::Advise(std::vector<EngineKey> keys) {
  if (!Connected()) co_return;
  BlockRun run = *Name(keys, 0);
  run.hint = DrawHint(&random_);
  Request<size_t> request{.name = "advise", .order = order_, .timeout = absl::ZeroDuration()};
  request.start = [run](Agent& agent) { return AdviseAgent(&agent, run); };
  const absl::StatusOr<size_t> advised =
      co_await CallAgent<size_t>(world_.executor, node_, world_.oracle, std::move(request));
  world_.trace->Add("advise", {node_->number(), CodeOf(advised), advised.ok() ? *advised : 0});
  if (!advised.ok()) co_return;
  world_.oracle->Expect(*advised <= keys.size(), "more blocks advised of than were named");
  advised_blocks_ += *advised;
}

Task<void> SimWorker::KeepOrDrop(std::vector<EngineKey> keys) {
  if (!Connected()) co_return;
  const bool drops = keeps_.Draw(0.05);
  const absl::Duration ttl =
      drops ? absl::ZeroDuration() : keeps_.Between(kMinKeptTtl, absl::Seconds(4));
  const absl::Duration timeout = drops ? absl::Minutes(2) : absl::Milliseconds(50);
  Request<size_t> request{.name = "keep", .order = order_, .timeout = timeout};
  request.start = [run = *Name(keys, 0), ttl, timeout](Agent& agent) {
    return sim::KeepOrDrop(&agent, run, ttl, timeout);
  };
  const absl::StatusOr<size_t> blocks =
      co_await CallAgent<size_t>(world_.executor, node_, world_.oracle, std::move(request));
  world_.trace->Add("keep", {node_->number(), CodeOf(blocks), blocks.ok() ? *blocks : 0});
  (drops ? dropped_blocks_ : kept_blocks_) += blocks.value_or(0);
}

Task<size_t> SimWorker::Get(std::vector<EngineKey> keys, absl::Duration timeout,
                            absl::Duration hold) {
  if (!Connected()) co_return 0;
  const BlockRun run = *Name(keys, 0);
  const bool local_only = random_behaviour_ && random_.Draw(0.1);
  const Tier target = identity_.target;
  const bool in_parts = target == Tier::kHost && random_.Draw(0.3);
  Request<absl::StatusOr<Onboarded>> request{
      .name = "onboard", .order = order_, .timeout = timeout};
  request.start = [run, timeout, local_only, target, in_parts](Agent& agent) {
    OnboardRequest onboard{.run = run,
                           .target = target,
                           .deadline = agent.executor()->Now() + timeout,
                           .local_only = local_only};
    return in_parts ? OnboardInParts(&agent.flows().onboarder, std::move(onboard))
                    : agent.flows().onboarder.Onboard(std::move(onboard));
  };
  const uint64_t incarnation = incarnation_;
  // Blocks in host memory are read under their leases alone, in no step.
  const uint64_t step = target == Tier::kGpu ? BeginStep() : 0;
  const absl::StatusOr<absl::StatusOr<Onboarded>> answer =
      co_await CallAgent<absl::StatusOr<Onboarded>>(world_.executor, node_, world_.oracle,
                                                    std::move(request));
  const absl::StatusOr<Onboarded> onboarded =
      answer.ok() ? *answer : absl::StatusOr<Onboarded>(answer.status());
  world_.trace->Add("onboard", {node_->number(), keys.size(), CodeOf(onboarded),
                                onboarded.ok() ? onboarded->blocks.size() : 0});
  if (!onboarded.ok() || !Connected() || incarnation_ != incarnation) {
    world_.oracle->Expect(onboarded.ok() || absl::IsUnavailable(onboarded.status()),
                          absl::StrCat("onboard fails: ", onboarded.status().ToString()));
    if (incarnation_ == incarnation) EndStep(step);
    co_return 0;
  }
  world_.oracle->Expect(onboarded->blocks.size() <= keys.size(), "more blocks than were asked for");
  const auto by = step > 0 ? WorkerOrder::By::kCompute : WorkerOrder::By::kHost;
  order_->Launches();
  Check(keys, *onboarded, by);
  std::vector<LeaseId> leases;
  for (const LeasedBlock& block : onboarded->blocks) leases.push_back(block.lease);
  // Blocks that a step reads stay until it ends, also without the leases.
  const bool early = step > 0 && random_.Draw(0.5);
  if (early) Release(leases);
  const absl::Time until = world_.executor->Now() + hold;
  if (until > onboarded->lease_deadline) LetRunOut(onboarded->lease_deadline);
  co_await SleepUntil(world_.executor, until);
  // The bytes are still those of the blocks at the very end of the lease.
  if (Connected() && (step > 0 || world_.executor->Now() <= onboarded->lease_deadline)) {
    Check(keys, *onboarded, by);
  }
  EndStep(step);
  const bool forgets = random_behaviour_ && random_.Draw(0.05);
  if (!early && !forgets && Connected()) Release(leases);
  if (forgets) LetRunOut(onboarded->lease_deadline);
  co_return onboarded->blocks.size();
}

size_t SimWorker::CountHere(const std::vector<EngineKey>& keys) const {
  const BlockIndex& index = node_->agent().index();
  const BlockRun run = *Name(keys, 0);
  return static_cast<size_t>(std::ranges::count_if(run.keys, [&](const BlockKey& key) {
    return index.In(Tier::kHost, key) || index.In(Tier::kDisk, key);
  }));
}

void SimWorker::Release(const std::vector<LeaseId>& leases) {
  order_->Tells();
  node_->agent().sessions().leases().Release(*session_, leases);
}

void SimWorker::LetRunOut(absl::Time deadline) {
  if (deadline <= world_.executor->Now()) return;
  world_.executor->PostAt(deadline, [order = order_] { order->Tells(); });
}

void SimWorker::Check(const std::vector<EngineKey>& keys, const Onboarded& onboarded,
                      WorkerOrder::By by) {
  for (size_t i = 0; i < onboarded.blocks.size(); ++i) {
    const LeasedBlock& block = onboarded.blocks[i];
    const std::span<const std::byte> bytes =
        node_->Memory(identity_.target, domain_, block.offset, block.length);
    order_->Touches(by, WorkerOrder::Access::kRead, bytes);
    world_.oracle->ExpectBlock(identity_.tenant, identity_.space, keys[i], bytes);
  }
}

Task<size_t> SimWorker::Put(std::vector<EngineKey> keys, size_t from) {
  if (!Connected()) co_return 0;
  BlockRun run = *Name(keys, from);
  for (size_t i = from; space_.any_length && i < keys.size(); ++i) {
    run.key_lengths.push_back(LengthOf(identity_.space, keys[i]));
  }
  const Tier target = identity_.target;
  const absl::Duration timeout =
      random_behaviour_ ? random_.Between(absl::ZeroDuration(), absl::Milliseconds(100))
                        : kPutTimeout;
  Request<absl::StatusOr<Reserved>> request{.name = "reserve", .order = order_, .timeout = timeout};
  request.start = [run, target, timeout](Agent& agent) {
    return agent.flows().putter.ReserveBy(run, target, agent.executor()->Now() + timeout);
  };
  const uint64_t incarnation = incarnation_;
  const absl::StatusOr<absl::StatusOr<Reserved>> answer =
      co_await CallAgent<absl::StatusOr<Reserved>>(world_.executor, node_, world_.oracle,
                                                   std::move(request));
  const absl::StatusOr<Reserved> reserved =
      answer.ok() ? *answer : absl::StatusOr<Reserved>(answer.status());
  world_.oracle->Expect(reserved.ok() || absl::IsUnavailable(reserved.status()),
                        "reserve fails: " + reserved.status().ToString());
  if (!reserved.ok() || !Connected() || incarnation_ != incarnation) co_return 0;
  node_->NotePut(identity_.tenant, target, *reserved);
  const auto put = std::make_shared<Reserving>();
  for (size_t i = 0; i < reserved->blocks.size(); ++i) {
    if (reserved->blocks[i].state != ReservedBlock::State::kReserved) continue;
    put->keys.push_back(keys[from + i]);
    put->blocks.push_back(reserved->blocks[i]);
  }
  world_.trace->Add("reserve", {node_->number(), run.keys.size(), put->blocks.size()});
  const uint64_t step = BeginStep();
  writing_ = put;
  if (step == 0) {
    co_await Write(*put, WorkerOrder::By::kHost);
    writing_ = nullptr;
    const size_t committed = co_await Commit(*put, 0);
    co_return committed;
  }
  const auto written = std::make_shared<Event>(world_.executor);
  scope_->Spawn(WriteInStep(put, step, written));
  const size_t committed = co_await Commit(*put, step);
  co_await written->WaitUntil(absl::InfiniteFuture());
  co_return committed;
}

Task<void> SimWorker::WriteInStep(std::shared_ptr<const Reserving> put, uint64_t step,
                                  std::shared_ptr<Event> written) {
  co_await Write(*put, WorkerOrder::By::kCompute);
  writing_ = nullptr;
  EndStep(step);
  written->Set();
}

// Writes the blocks after some time of computing, which now and then is far too long: longer than a
// commit waits, or longer than a reservation lasts.
Task<void> SimWorker::Write(const Reserving& put, WorkerOrder::By by) {
  for (size_t i = 0; i < put.blocks.size(); ++i) {
    if (!Connected()) co_return;
    const std::span<std::byte> slot =
        node_->WriteMemory(*session_, identity_.target, domain_, put.blocks[i].offset,
                           LengthOf(identity_.space, put.keys[i]));
    order_->Touches(by, WorkerOrder::Access::kWrite, slot);
    const std::span<std::byte> half = slot.first(slot.size() / 2);
    std::fill(half.begin(), half.end(), std::byte{0xab});
    if (random_behaviour_) {
      absl::Duration most = absl::Milliseconds(3);
      if (random_.Draw(0.003)) {
        most = (random_.Draw(0.5) ? kReservationDuration : kCommitTimeout) + absl::Seconds(3);
      }
      const absl::Duration takes = random_.Between(most / 2, most);
      co_await SleepUntil(world_.executor, world_.executor->Now() + takes);
      if (!Connected()) co_return;
    }
    order_->Touches(by, WorkerOrder::Access::kWrite, slot);
    testing::FillBlock(ContentSeed(identity_.tenant, identity_.space), put.keys[i], slot);
  }
}

Task<size_t> SimWorker::Commit(const Reserving& put, uint64_t step) {
  if (!Connected()) co_return 0;
  std::vector<ReservationId> commits;
  std::vector<ReservationId> abandoned;
  const bool abandons = random_behaviour_ && random_.Draw(0.1);
  for (const ReservedBlock& block : put.blocks) {
    (abandons && random_.Draw(0.5) ? abandoned : commits).push_back(block.id);
  }
  Request<size_t> request{.name = "commit", .order = order_, .timeout = kCommitTimeout};
  const SessionId session = *session_;
  request.start = [session, commits, step](Agent& agent) {
    return agent.flows().putter.Commit(session, commits, step);
  };
  const absl::StatusOr<size_t> committed =
      co_await CallAgent<size_t>(world_.executor, node_, world_.oracle, std::move(request));
  world_.trace->Add("commit", {node_->number(), CodeOf(committed), commits.size(),
                               committed.ok() ? *committed : 0});
  if (!committed.ok() || !Connected() || *session_ != session) co_return 0;
  world_.oracle->Expect(*committed <= commits.size(), "more commits than were asked for");
  // Gives back late reservations, too: until then their slots are taken.
  abandoned.insert(abandoned.end(), commits.begin(), commits.end());
  const bool forgets = random_behaviour_ && random_.Draw(0.1);
  if (!forgets) {
    order_->Tells();
    node_->agent().sessions().reservations().Release(*session_, abandoned);
  }
  co_return *committed;
}

}  // namespace kvtier::sim
