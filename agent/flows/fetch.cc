#include "agent/flows/fetch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/index/slot_sum.h"
#include "agent/limits.h"
#include "core/checksum.h"
#include "core/event.h"
#include "core/log.h"

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
    Evictor* const evictor = fetcher_->parts_.evictor;
    absl::StatusOr<HostSlot> slot = evictor->ReserveHost(
        sought_->domain, evictor->RoomFor(sought_->domain, sought_->lengths, proof.length));
    states_[index] = slot.ok() ? State::kAbsent : State::kNoRoom;
    if (!slot.ok()) return {};
    slot_ = *std::move(slot);
    proof_ = proof;
    return slot_.bytes().first(proof.length);
  }

  void Arrived(size_t index) override {
    last_ = fetcher_->parts_.executor->Now();
    states_[index] = State::kVerifying;
    ++verifying_;
    bytes_ += proof_.length;
    fetcher_->parts_.scope->Spawn(
        fetcher_->VerifyAndPublish(sought_->keys[index], proof_, std::move(slot_), this, index));
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
  BlockProof proof_;
  uint64_t bytes_ = 0;
  const absl::Time began_;
  absl::Time last_ = absl::InfinitePast();  // Time of the last sign of a block.
  absl::Time ended_;
  bool any_wrong_ = false;
  size_t verifying_ = 0;
  std::unique_ptr<Event> settled_;  // nullptr: nobody waits.
};

Task<LocateReply> Fetcher::Locate(std::vector<BlockKey> keys, LocateScope scope,
                                  absl::Time deadline) {
  if (parts_.reporter == nullptr || keys.empty()) co_return LocateReply();
  const absl::Duration allowed = patience_.Allowed(parts_.reporter->heard());
  if (allowed == absl::ZeroDuration()) co_return LocateReply();
  const absl::Time sent = parts_.executor->Now();
  const absl::Time by = std::min(deadline, sent + allowed);
  const size_t asked = keys.size();
  LocateQuery query{.asker = self_, .keys = std::move(keys), .scope = scope};
  absl::StatusOr<LocateReply> located =
      co_await parts_.reporter->link()->Locate(std::move(query), by);
  const absl::Time now = parts_.executor->Now();
  if (located.ok()) {
    patience_.Answered(sent, now);
    if (located->size() > asked) located->resize(asked);
    co_return *std::move(located);
  }
  // A timeout says nothing about the coordinator if the caller had less time than a locate is
  // allowed.
  if (by < deadline || !absl::IsDeadlineExceeded(located.status())) patience_.Failed(sent, now);
  co_return LocateReply();
}

Task<std::vector<SharedLoad>> Fetcher::Start(const BlockRun& run, size_t first,
                                             absl::Time deadline) {
  Sought sought{.domain = run.domain,
                .payer = run.payer(),
                .erasures = parts_.index->erasures(run.domain),
                .space = run.space,
                .lengths = run.lengths,
                .deadline = deadline,
                .hint = run.hint,
                .keys = {run.keys.begin() + first, run.keys.end()}};
  const LocateScope scope = run.is_set ? LocateScope::kEach : LocateScope::kLeading;
  sought.holders = co_await Locate(sought.keys, scope, deadline);
  if (run.is_set) sought.DropUnheld();
  std::vector<PeerRun> runs = Plan(sought);
  std::vector<SharedLoad> loads;
  for (size_t i = 0; i < runs.size(); ++i) {
    PeerRun& from = runs[i];
    // Another asker may have started some of these while we located.
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
  co_return loads;
}

void Fetcher::Sought::DropUnheld() {
  size_t kept = 0;
  for (size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].empty()) continue;
    std::swap(keys[kept], keys[i]);
    std::swap(holders[kept], holders[i]);
    ++kept;
  }
  keys.resize(kept);
  holders.resize(kept);
}

bool Fetcher::IsFresh(const BlockKey& key) const {
  return parts_.loads->Find(key) == nullptr && !parts_.index->In(Tier::kHost, key);
}

std::vector<PeerRun> Fetcher::Plan(const Sought& sought) {
  const StandingOf standing_of = [&](const std::string& address) {
    return standings_.Of(address, sought.payer);
  };
  const size_t free_fetches = standings_.FreeFor(sought.payer);
  if (free_fetches == 0) standings_.CountRefused(sought.payer);
  return PlanFetch(sought.holders,
                   // If blocks are shorter than this, the plan takes too few of them, and never one
                   // that comes too late.
                   {.block_bytes = sought.lengths.longest,
                    .budget = sought.deadline - parts_.executor->Now(),
                    .free_fetches = free_fetches},
                   standing_of);
}

void Fetcher::StartFetches(const Sought& sought, const std::vector<PeerRun>& runs) {
  // All fetches are counted before the first may end and ask for more.
  for (const PeerRun& from : runs) standings_.Began(from.address, sought.payer);
  for (const PeerRun& from : runs) {
    const auto key = sought.keys.begin() + static_cast<ptrdiff_t>(from.first);
    const auto holders = sought.holders.begin() + static_cast<ptrdiff_t>(from.first);
    const auto count = static_cast<ptrdiff_t>(from.count);
    Sought part{.domain = sought.domain,
                .payer = sought.payer,
                .erasures = sought.erasures,
                .space = sought.space,
                .lengths = sought.lengths,
                .deadline = sought.deadline,
                .hint = sought.hint,
                .keys = {key, key + count},
                .holders = {holders, holders + count}};
    parts_.scope->Spawn(RunFetch(std::move(part), from));
  }
}

Task<void> Fetcher::RunFetch(Sought sought, PeerRun from) {
  Arrivals arrivals(this, &sought);
  const FetchTime time{.deadline = parts_.executor->Now() + from.time, .silence = from.silence};
  const absl::Status status =
      co_await parts_.transport->Fetch(from.address, sought.keys, time, &arrivals);
  co_await arrivals.Settle();
  Learn(from.address, sought.payer, arrivals, status);
  PassOn(std::move(sought), from.address, arrivals, status);
}

void Fetcher::Learn(const std::string& asked, DomainId payer, const Arrivals& arrivals,
                    const absl::Status& status) {
  absl::Status failure = status;
  // A peer that was still sending at the deadline has not failed; its estimate says it is slow.
  if (absl::IsDeadlineExceeded(status) && !arrivals.fell_silent()) failure = absl::OkStatus();
  // kAborted: the tenant has used up its share of the peer's streams; other tenants are served.
  if (absl::IsAborted(status)) failure = absl::OkStatus();
  if (arrivals.any_wrong()) {
    failure = absl::DataLossError("a block that it sent does not match its checksum");
  }
  standings_.Ended(
      asked, payer,
      {.bytes = arrivals.bytes(), .took = arrivals.took(), .failure = std::move(failure)});
}

void Fetcher::PassOn(Sought sought, const std::string& asked, const Arrivals& arrivals,
                     const absl::Status& status) {
  using State = Arrivals::State;
  Sought rest{.domain = sought.domain,
              .payer = sought.payer,
              .erasures = sought.erasures,
              .space = sought.space,
              .lengths = sought.lengths,
              .deadline = sought.deadline,
              .hint = sought.hint};
  std::vector<State> states;
  for (size_t i = 0; i < sought.keys.size(); ++i) {
    if (arrivals.state(i) == State::kHere) continue;
    std::vector<Holder>& holders = sought.holders[i];
    std::erase_if(holders, [&](const Holder& holder) { return holder.address == asked; });
    // Without room here the next holder's bytes would be skipped as well.
    if (arrivals.state(i) == State::kNoRoom) holders.clear();
    rest.keys.push_back(sought.keys[i]);
    rest.holders.push_back(std::move(holders));
    states.push_back(arrivals.state(i));
  }
  if (rest.keys.empty()) return;
  const std::vector<PeerRun> runs = Plan(rest);
  const size_t passed = runs.empty() ? 0 : runs.back().first + runs.back().count;
  parts_.stats->peers.passed_blocks += passed;
  if (passed < rest.keys.size() && absl::IsDeadlineExceeded(status)) ++parts_.stats->peers.timeouts;
  for (size_t i = passed; i < rest.keys.size(); ++i) {
    if (states[i] != State::kWrong) ++parts_.stats->peers.missed_blocks;
    parts_.loads->Finish(rest.keys[i],
                         absl::NotFoundError(absl::StrCat(
                             "peer ", asked, " did not send the block: ", status.ToString())));
  }
  StartFetches(rest, runs);
}

Task<void> Fetcher::VerifyAndPublish(BlockKey key, BlockProof proof, HostSlot slot,
                                     Arrivals* arrivals, size_t index) {
  const BlockIdentity identity{.key = key, .space = proof.space, .length = proof.length};
  absl::Status verified;
  ByteThreads::Work verify = [&] {
    verified = VerifyBlock(identity, proof.sum, proof.seal, slot.bytes().first(proof.length));
    ZeroAfter(slot.bytes(), proof.length);
  };
  co_await parts_.byte_threads->Run(std::move(verify));
  if (!verified.ok()) {
    ++parts_.stats->peers.verify_failures;
    Log(LogLevel::kError,
        absl::StrCat("a block that a peer sent was dropped: ", verified.ToString()));
    arrivals->Verified(index, false);
    co_return;
  }
  if (parts_.index->erasures(slot.domain()) != arrivals->erasures()) {
    parts_.loads->Finish(
        key, absl::AbortedError(
                 "the block's tenant was erased while the block was fetched from a peer"));
    arrivals->Verified(index, true);  // The block is not asked of other nodes.
    co_return;
  }
  ++parts_.stats->peers.fetched_blocks;
  parts_.stats->peers.fetched_bytes += proof.length;
  if (!parts_.index->In(Tier::kHost, key)) {
    const Arrival arrival =
        parts_.loads->IsAwaited(key) ? Arrival::kFromPeer : Arrival::kPrefetched;
    parts_.index->PublishHost({.key = key,
                               .parent = proof.parent,
                               .space = proof.space,
                               .length = proof.length,
                               .sum = proof.sum},
                              std::move(slot), arrival, arrivals->hint(), parts_.index->Now());
    ++parts_.stats->host.inserts;
    parts_.stats->host.bytes_in += proof.length;
  }
  parts_.loads->Finish(key, absl::OkStatus());
  arrivals->Verified(index, true);
}

}  // namespace kvtier
