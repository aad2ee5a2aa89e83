#include "agent/flows/fetch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "core/checksum.h"
#include "core/event.h"

namespace kvtier {

// Gives each block that a peer starts to send a slot of its own, hands it over for
// verification when it is whole, and remembers what became of each.
class Fetcher::Arrivals final : public FetchSink {
 public:
  enum class State { kAbsent, kNoRoom, kVerifying, kWrong, kHere };

  Arrivals(Fetcher* fetcher, const Sought* sought)
      : fetcher_(fetcher),
        sought_(sought),
        states_(sought->keys.size(), State::kAbsent),
        began_(fetcher->parts_.executor->Now()) {}

  std::span<std::byte> Begin(size_t index, const BlockProof& proof) override {
    slot_.Release();
    last_ = fetcher_->parts_.executor->Now();
    if (index >= states_.size() || arrived(index) || proof.space != sought_->space ||
        !sought_->lengths.Allow(proof.length)) {
      return {};
    }
    std::optional<BlockMeta> meta =
        fetcher_->NamerOf(sought_->domain).Check(sought_->keys[index], proof);
    if (!meta.has_value()) {
      states_[index] = State::kWrong;
      any_wrong_ = true;
      fetcher_->Refuse(absl::DataLossError(
          absl::StrCat("block ", sought_->keys[index].ToHex(),
                       ": its proof was not made with the tenant's secret, or not for it")));
      return {};
    }
    Evictor* const evictor = fetcher_->parts_.evictor;
    absl::StatusOr<HostSlot> slot = evictor->ReserveHost(
        sought_->domain, evictor->RoomFor(sought_->domain, sought_->lengths, proof.length));
    states_[index] = slot.ok() ? State::kAbsent : State::kNoRoom;
    if (!slot.ok()) return {};
    slot_ = *std::move(slot);
    meta_ = *std::move(meta);
    return slot_.bytes().first(meta_.length);
  }

  void Arrived(size_t index) override {
    last_ = fetcher_->parts_.executor->Now();
    states_[index] = State::kVerifying;
    ++verifying_;
    bytes_ += meta_.length;
    fetcher_->parts_.scope->Spawn(fetcher_->VerifyAndPublish(meta_, std::move(slot_), this, index));
  }
  void Verified(size_t index, bool ok) {
    states_[index] = ok ? State::kHere : State::kWrong;
    any_wrong_ = any_wrong_ || !ok;
    if (--verifying_ == 0 && settled_ != nullptr) settled_->Set();
  }
  // Ends when every block that arrived is verified. Called after the fetch.
  Task<void> Settle() {
    ended_ = fetcher_->parts_.executor->Now();
    slot_.Release();
    if (verifying_ == 0) co_return;
    settled_ = std::make_unique<Event>(fetcher_->parts_.executor);
    co_await settled_->WaitUntil(absl::InfiniteFuture());
  }

  State state(size_t index) const { return states_[index]; }
  uint64_t erasures() const { return sought_->erasures; }
  const ReuseHint& hint() const { return sought_->hint; }
  uint64_t bytes() const { return bytes_; }
  bool any_wrong() const { return any_wrong_; }
  // took() and the next function return, after Settle(), the time of the fetch, and whether no
  // block began or ended in the second half of it.
  absl::Duration took() const { return ended_ - began_; }
  bool fell_silent() const { return last_ <= began_ + took() / 2; }

 private:
  bool arrived(size_t index) const {
    return states_[index] != State::kAbsent && states_[index] != State::kNoRoom;
  }

  Fetcher* const fetcher_;
  const Sought* const sought_;
  std::vector<State> states_;
  HostSlot slot_;
  BlockMeta meta_;  // Block that `slot_` is for.
  uint64_t bytes_ = 0;
  const absl::Time began_;
  absl::Time last_ = absl::InfinitePast();  // Time of the last sign of a block.
  absl::Time ended_;
  bool any_wrong_ = false;
  size_t verifying_ = 0;
  std::unique_ptr<Event> settled_;  // nullptr: nobody waits.
};

Task<LocateReply> Fetcher::Locate(DomainId domain, std::span<const BlockKey> keys,
                                  LocateScope scope, absl::Time deadline) {
  std::vector<NodeId> tried;
  absl::StatusOr<LocateReply> located =
      co_await Ask(domain, keys, scope, deadline, std::move(tried));
  if (!located.ok()) co_return LocateReply();
  co_return *std::move(located);
}

Task<absl::StatusOr<LocateReply>> Fetcher::Ask(DomainId domain, std::span<const BlockKey> keys,
                                               LocateScope scope, absl::Time deadline,
                                               std::vector<NodeId> tried) {
  if (parts_.reporter == nullptr || keys.empty()) co_return LocateReply();
  const absl::Duration allowed = patience_.Allowed(parts_.reporter->heard());
  if (allowed == absl::ZeroDuration()) {
    co_return absl::UnavailableError("the coordinator does not answer");
  }
  const absl::Time sent = parts_.executor->Now();
  const absl::Time by = std::min(deadline, sent + allowed);
  const size_t asked = keys.size();
  LocateQuery query{.asker = self_,
                    .names = NamerOf(domain).NamesOf(keys),
                    .scope = scope,
                    .avoided = std::move(tried)};
  for (NodeId& node : standings_.AvoidedNodes()) {
    if (std::ranges::find(query.avoided, node) == query.avoided.end()) {
      query.avoided.push_back(std::move(node));
    }
  }
  if (query.avoided.size() > kMaxAvoidedNodes) {
    query.avoided.erase(query.avoided.begin() + kMaxAvoidedNodes, query.avoided.end());
  }
  absl::StatusOr<LocateReply> located =
      co_await parts_.reporter->link()->Locate(std::move(query), by);
  const absl::Time now = parts_.executor->Now();
  if (located.ok()) {
    patience_.Answered(sent, now);
    if (located->size() > asked) located->resize(asked);
    co_return located;
  }
  // A timeout says nothing about the coordinator if the caller had less time than a locate is
  // allowed, and a coordinator that says that it is busy answers.
  const bool is_busy = absl::IsResourceExhausted(located.status());
  if (!is_busy && (by < deadline || !absl::IsDeadlineExceeded(located.status()))) {
    patience_.Failed(sent, now);
  }
  co_return located.status();
}

Task<Fetcher::Started> Fetcher::Start(const BlockRun& run, size_t first, Asker asker) {
  Sought sought{.domain = run.domain,
                .payer = run.payer(),
                .erasures = parts_.index->erasures(run.domain),
                .space = run.space,
                .lengths = run.lengths,
                .deadline = asker.deadline,
                .hint = run.hint,
                .keys = {run.keys.begin() + first, run.keys.end()}};
  const LocateScope scope = run.is_set ? LocateScope::kEach : LocateScope::kLeading;
  absl::StatusOr<LocateReply> located =
      co_await Ask(sought.domain, sought.keys, scope, asker.deadline, sought.tried);
  if (!located.ok()) {
    const bool is_busy = absl::IsResourceExhausted(located.status());
    Started none;
    if (is_busy) none.missed = {.key = sought.keys[0], .reason = MissReason::kBusy};
    co_return none;
  }
  sought.holders = *std::move(located);
  if (run.is_set) sought.DropUnheld();
  const size_t held = sought.holders.size();
  if (held == 0 || sought.holders[0].empty()) co_return Started();
  sought.NoteAnswer(sought.holders);

  Started started{.loads = Begin(sought)};
  MissReason missed = MissReason::kNone;
  // The wait is over when there are loads, when another asker brings the first block, or when no
  // holder could bring it in time any more.
  const auto is_over = [&] {
    return !started.loads.empty() || !IsFresh(sought.keys[0]) || !MayComeLater(sought);
  };
  if (!is_over()) {
    sought = sought.Part(0, std::min(held, kBlocksPerFetchPlace));
    missed = MissReason::kBusy;
    const auto begin = [&] {
      started.loads = Begin(sought);
      return is_over();
    };
    FetchLine::Ask ask{.begin = begin};
    if (asker.is_over != nullptr) {
      ask.is_gone = asker.is_over;
      missed = co_await AwaitTurn(sought, std::move(ask), asker.turn_by);
    }
    if (missed != MissReason::kNone) standings_.CountRefused(sought.payer);
  }
  if (!started.loads.empty()) {
    started.more = started.loads.size() < held;
    co_return started;
  }
  if (!IsFresh(sought.keys[0])) co_return Started{.more = held > 1};
  if (missed == MissReason::kNone) missed = WhyNotBegun(sought);
  started.missed = {.key = sought.keys[0], .reason = missed};
  parts_.stats->peers.missed_blocks += held;
  co_return started;
}

bool Fetcher::MayComeLater(const Sought& sought) {
  const absl::Duration budget = sought.deadline - parts_.executor->Now();
  return std::ranges::any_of(sought.holders[0], [&](const Holder& holder) {
    const PeerStanding standing = standings_.Of(holder.address, sought.payer);
    return !standing.avoided && WorthFetching(standing.estimate, sought.lengths.longest, budget);
  });
}

MissReason Fetcher::WhyNotBegun(const Sought& sought) {
  const bool all_avoided = std::ranges::all_of(sought.holders[0], [&](const Holder& holder) {
    return standings_.Of(holder.address, sought.payer).avoided;
  });
  return all_avoided ? MissReason::kAbsent : MissReason::kDeadline;
}

Task<MissReason> Fetcher::AwaitTurn(const Sought& sought, FetchLine::Ask ask, absl::Time by) {
  if (line_.FreeFor(sought.payer) < ask.places) co_return MissReason::kBusy;
  ask.payer = sought.payer;
  for (const Holder& holder : sought.holders[0]) ask.peers.push_back(holder.address);
  const bool begun = co_await line_.Wait(std::move(ask), by);
  co_return begun ? MissReason::kNone : MissReason::kDeadline;
}

void Fetcher::Shorten(Sought* rest) {
  const size_t most = line_.FreeFor(rest->payer) * kBlocksPerFetchPlace;
  while (rest->keys.size() > most) {
    Miss(rest->keys.back(),
         absl::CancelledError("too many requests wait for blocks of other nodes; ask again later"));
    rest->keys.pop_back();
    rest->holders.pop_back();
  }
}

std::vector<SharedLoad> Fetcher::Begin(const Sought& sought) {
  std::vector<PeerRun> runs = Plan(sought);
  std::vector<SharedLoad> loads;
  for (size_t i = 0; i < runs.size(); ++i) {
    PeerRun& from = runs[i];
    // Another asker may have started some of these while we located or waited.
    size_t fresh = 0;
    while (fresh < from.count && IsFresh(sought.keys[from.first + fresh])) {
      loads.push_back(parts_.loads->Start(sought.keys[from.first + fresh], std::nullopt));
      ++fresh;
    }
    if (fresh == from.count) continue;
    from.count = fresh;
    runs.resize(fresh == 0 ? i : i + 1);
  }
  StartFetches(sought, runs);
  return loads;
}

size_t Fetcher::BeginRest(Sought* rest) {
  const std::vector<PeerRun> runs = Plan(*rest);
  if (runs.empty()) return 0;
  const size_t begun = runs.back().first + runs.back().count;
  const Sought part = rest->Part(0, begun);
  rest->RemoveFront(begun);
  parts_.stats->peers.passed_blocks += begun;
  StartFetches(part, runs);
  return begun;
}

Task<void> Fetcher::AskForOthers(Sought* sought) {
  // The holder that is asked next should have another one behind it, or it would be given all the
  // time that is left.
  constexpr ptrdiff_t kEnough = 2;
  const auto has_enough = [&](const std::vector<Holder>& holders) {
    return std::ranges::count_if(holders, [&](const Holder& holder) {
             return !standings_.Of(holder.address, sought->payer).avoided;
           }) >= kEnough;
  };
  if (std::ranges::all_of(sought->holders, has_enough)) co_return;
  const absl::StatusOr<LocateReply> located = co_await Ask(
      sought->domain, sought->keys, LocateScope::kEach, sought->deadline, sought->tried);
  if (!located.ok()) co_return;
  sought->NoteAnswer(*located);
  if (!sought->AddHolders(*located)) sought->may_have_others = false;
}

bool Fetcher::IsFresh(const BlockKey& key) const {
  return parts_.loads->Find(key) == nullptr && !parts_.index->In(Tier::kHost, key);
}

std::vector<PeerRun> Fetcher::Plan(const Sought& sought) {
  const StandingOf standing_of = [&](const std::string& address) {
    return standings_.Of(address, sought.payer);
  };
  return PlanFetch(sought.holders,
                   // If blocks are shorter than this, the plan takes too few of them, and never one
                   // that comes too late.
                   {.block_bytes = sought.lengths.longest,
                    .budget = sought.deadline - parts_.executor->Now(),
                    .free_fetches = standings_.FreeFor(sought.payer)},
                   standing_of);
}

void Fetcher::StartFetches(const Sought& sought, const std::vector<PeerRun>& runs) {
  // All fetches are counted before the first may end and ask for more.
  for (const PeerRun& from : runs) standings_.Began(from.address, sought.payer);
  for (const PeerRun& from : runs) {
    parts_.scope->Spawn(RunFetch(sought.Part(from.first, from.count), from));
  }
}

Task<void> Fetcher::RunFetch(Sought sought, PeerRun from) {
  // The plan chose one of the first block's holders.
  const Holder asked = *std::ranges::find(sought.holders[0], from.address, &Holder::address);
  Arrivals arrivals(this, &sought);
  const FetchTime time{.deadline = parts_.executor->Now() + from.time, .silence = from.silence};
  const PeerNamer& namer = NamerOf(sought.domain);
  FetchRequest request{.tag = namer.tag(), .names = namer.NamesOf(sought.keys)};
  const absl::Status status =
      co_await parts_.transport->Fetch(from.address, std::move(request), time, &arrivals);
  co_await arrivals.Settle();
  Learn(asked, sought.payer, arrivals, status);
  co_await PassOn(std::move(sought), asked, arrivals, status);
}

void Fetcher::Learn(const Holder& asked, DomainId payer, const Arrivals& arrivals,
                    const absl::Status& status) {
  absl::Status failure = status;
  // A peer that was still sending at the deadline has not failed; its estimate says it is slow.
  if (absl::IsDeadlineExceeded(status) && !arrivals.fell_silent()) failure = absl::OkStatus();
  if (arrivals.any_wrong()) {
    failure = absl::DataLossError("a block that it sent does not match its proof or its checksum");
  }
  standings_.Ended(asked.address, payer,
                   {.bytes = arrivals.bytes(),
                    .took = arrivals.took(),
                    .failure = std::move(failure),
                    .busy = absl::IsAborted(status) && !arrivals.any_wrong(),
                    .node = asked.node});
  line_.Pump();
}

Task<void> Fetcher::PassOn(Sought sought, const Holder& asked, const Arrivals& arrivals,
                           const absl::Status& status) {
  using State = Arrivals::State;
  // A peer that is busy is asked again, if no other holder brings the blocks before.
  const bool is_busy = absl::IsAborted(status);
  Sought rest = sought.Empty();
  std::vector<State> states;
  if (!is_busy) rest.tried.push_back(asked.node);
  for (size_t i = 0; i < sought.keys.size(); ++i) {
    const State state = arrivals.state(i);
    if (state == State::kHere) continue;
    if (state == State::kNoRoom) {  // The next holder's bytes would be skipped as well.
      Miss(sought.keys[i], absl::ResourceExhaustedError(
                               "host memory had no room for the block; release blocks sooner"));
      continue;
    }
    if (!is_busy) sought.DropHolder(i, asked.node);
    rest.keys.push_back(sought.keys[i]);
    rest.holders.push_back(std::move(sought.holders[i]));
    states.push_back(state);
  }
  if (rest.keys.empty()) co_return;
  if (rest.may_have_others && !is_busy) co_await AskForOthers(&rest);
  size_t passed = BeginRest(&rest);
  // The holders of the first block that is left have no fetch free now.
  MissReason missed = MissReason::kNone;
  while (!rest.keys.empty() && missed == MissReason::kNone && MayComeLater(rest)) {
    Shorten(&rest);
    if (rest.keys.empty()) co_return;
    const auto begin = [&] {
      const size_t begun = BeginRest(&rest);
      passed += begun;
      return begun > 0 || !MayComeLater(rest);
    };
    const size_t places = (rest.keys.size() + kBlocksPerFetchPlace - 1) / kBlocksPerFetchPlace;
    FetchLine::Ask ask{.places = places, .begin = begin};
    missed = co_await AwaitTurn(rest, std::move(ask), rest.deadline);
  }
  if (rest.keys.empty()) co_return;
  const bool timed_out = missed == MissReason::kDeadline || absl::IsDeadlineExceeded(status);
  if (timed_out) ++parts_.stats->peers.timeouts;
  const bool was_silent = absl::IsUnavailable(status) && arrivals.took() >= kMinPeerSilence;
  const std::string why =
      absl::StrCat("peer ", asked.address, " did not send the block: ", status.ToString());
  for (size_t i = 0; i < rest.keys.size(); ++i) {
    if (states[passed + i] == State::kWrong) {
      // Counted as a wrong block, and not as a missing one.
      parts_.loads->Finish(rest.keys[i], absl::DataLossError(why));
    } else if (timed_out || was_silent || !rest.holders[i].empty()) {
      Miss(rest.keys[i], absl::DeadlineExceededError(why));
    } else {
      Miss(rest.keys[i], absl::NotFoundError(why));
    }
  }
}

void Fetcher::Miss(const BlockKey& key, const absl::Status& why) {
  ++parts_.stats->peers.missed_blocks;
  parts_.loads->Finish(key, why);
}

void Fetcher::Refuse(const absl::Status& why) {
  ++parts_.stats->peers.verify_failures;
  refusals_.Write(LogLevel::kError,
                  absl::StrCat("a block that a peer sent was dropped: ", why.ToString()),
                  parts_.executor->Now());
}

Task<void> Fetcher::VerifyAndPublish(BlockMeta meta, HostSlot slot, Arrivals* arrivals,
                                     size_t index) {
  absl::Status verified;
  ByteThreads::Work verify = [&] {
    verified = VerifyPayload(meta.key, meta.length, meta.sum, slot.bytes().first(meta.length));
    ZeroAfter(slot.bytes(), meta.length);
  };
  co_await parts_.byte_threads->Run(std::move(verify));
  if (!verified.ok()) {
    Refuse(verified);
    arrivals->Verified(index, false);
    co_return;
  }
  if (parts_.index->erasures(slot.domain()) != arrivals->erasures()) {
    parts_.loads->Finish(
        meta.key, absl::AbortedError(
                      "the block's tenant was erased while the block was fetched from a peer"));
    arrivals->Verified(index, true);  // The block is not asked of other nodes.
    co_return;
  }
  ++parts_.stats->peers.fetched_blocks;
  parts_.stats->peers.fetched_bytes += meta.length;
  if (!parts_.index->In(Tier::kHost, meta.key)) {
    const Arrival arrival =
        parts_.loads->IsAwaited(meta.key) ? Arrival::kFromPeer : Arrival::kPrefetched;
    parts_.index->PublishHost(meta, std::move(slot), arrival, arrivals->hint(),
                              parts_.index->Now());
    ++parts_.stats->host.inserts;
    parts_.stats->host.bytes_in += meta.length;
  }
  parts_.loads->Finish(meta.key, absl::OkStatus());
  arrivals->Verified(index, true);
}

}  // namespace kvtier
