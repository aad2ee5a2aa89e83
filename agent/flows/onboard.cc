#include "agent/flows/onboard.h"

#include <algorithm>
#include <span>
#include <utility>

#include "agent/flows/onboard_parts.h"
#include "agent/limits.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// A run may alternate between this node and others; after this many questions to
// the coordinator the rest is a miss.
constexpr int kMaxLocateRounds = 4;

MissReason ReasonOf(const absl::Status& failed) {
  switch (failed.code()) {
    case absl::StatusCode::kResourceExhausted:
      return MissReason::kNoRoom;
    case absl::StatusCode::kDataLoss:
      return MissReason::kDamaged;
    case absl::StatusCode::kDeadlineExceeded:
      return MissReason::kDeadline;
    case absl::StatusCode::kCancelled:
      return MissReason::kBusy;
    default:
      return MissReason::kAbsent;
  }
}

// Returns a block whose load is in flight, for a request of this urgency.
Onboarder::Wanted Coming(SharedLoad load, Urgency urgency) {
  if (urgency == Urgency::kForeground) load->awaited = true;
  const std::optional<Tier> from = load->from;
  return {.load = std::move(load), .from = from};
}

}  // namespace

// Bringing is the state of one BringAll() call: the blocks that its requests have brought so far.
struct Onboarder::Bringing {
  Bringing(Executor* executor, size_t requests)
      : brought(requests), left(requests), done(executor) {}
  std::vector<Brought> brought;
  size_t left;
  Event done;
};

absl::Status Onboarder::FindTarget(OnboardRequest* request) const {
  if (request->target != Tier::kGpu) return absl::OkStatus();
  request->gpu = flows_.gpus->For(request->run);
  if (request->gpu != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "target: no GPU pool of this node has slots for blocks of this space; ask for TIER_HOST");
}

Task<absl::StatusOr<Onboarded>> Onboarder::Onboard(OnboardRequest request) {
  KVT_CO_RETURN_IF_ERROR(FindTarget(&request));
  Brought brought = co_await Bring(request);
  if (brought.blocks.size() <= kKeysPerTurn) co_return GrantLeases(request, std::move(brought));
  co_return co_await GrantInTurns(request, std::move(brought));
}

Task<absl::StatusOr<std::vector<Onboarded>>> Onboarder::OnboardAll(
    std::vector<OnboardRequest> requests) {
  for (OnboardRequest& request : requests) KVT_CO_RETURN_IF_ERROR(FindTarget(&request));
  std::vector<Brought> brought = co_await BringAll(&requests);
  std::vector<Onboarded> all;
  for (size_t i = 0; i < requests.size(); ++i) {
    KVT_CO_ASSIGN_OR_RETURN(Onboarded onboarded,
                            co_await GrantInTurns(requests[i], std::move(brought[i])));
    all.push_back(std::move(onboarded));
  }
  co_return all;
}

Task<std::vector<Onboarder::Brought>> Onboarder::BringAll(
    const std::vector<OnboardRequest>* requests) {
  const auto bringing = std::make_shared<Bringing>(flows_.executor, requests->size());
  for (size_t i = 0; i < requests->size(); ++i) {
    flows_.scope->Spawn(BringOne((*requests)[i], i, bringing));
  }
  // Each request ends by its own deadline.
  if (bringing->left > 0) co_await bringing->done.WaitUntil(absl::InfiniteFuture());
  co_return std::move(bringing->brought);
}

Task<void> Onboarder::BringOne(OnboardRequest request, size_t index,
                               std::shared_ptr<Bringing> bringing) {
  bringing->brought[index] = co_await Bring(std::move(request));
  if (--bringing->left == 0) bringing->done.Set();
}

Task<Onboarder::Brought> Onboarder::Bring(OnboardRequest request) {
  request.deadline = std::min(request.deadline, flows_.executor->Now() + kMaxRequestTimeout);
  Brought brought = co_await Gather(request, request.urgency);
  co_await AwaitReady(&brought, request);
  if (request.gpu != nullptr) {
    for (Wanted& block : brought.blocks) {
      if (!block.pin || block.pin.tier() != Tier::kHost) continue;
      block.load = request.gpu->Load(std::move(block.pin), request.run.hint);
    }
    request.gpu->Flush();
    co_await AwaitReady(&brought, request);
  }
  co_return brought;
}

Task<size_t> Onboarder::Prefetch(BlockRun run, bool local_only) {
  const OnboardRequest request{.run = std::move(run),
                               .deadline = flows_.executor->Now() + kPrefetchTimeout,
                               .local_only = local_only};
  const Brought brought = co_await Gather(request, Urgency::kPrefetch);
  co_return static_cast<size_t>(std::ranges::count_if(
      brought.blocks, [](const Wanted& block) { return block.pin || block.load != nullptr; }));
}

void Onboarder::SessionEnded(SessionId session) {
  for (Parts* const parts : parts_) {
    if (parts->session() == session) parts->Cancel();
  }
}

// Finds what is here or can be brought here, and pins it or starts its load. A block that is here
// is pinned first, so that the loads do not evict it.
Task<Onboarder::Brought> Onboarder::Gather(const OnboardRequest& request, Urgency urgency) {
  Brought brought;
  while (co_await GatherMore(request, urgency, &brought)) {
  }
  EndGather(request, &brought);
  co_return brought;
}

Task<bool> Onboarder::GatherMore(const OnboardRequest& request, Urgency urgency, Brought* brought) {
  return request.run.is_set ? GatherSet(request, urgency, brought)
                            : GatherRun(request, urgency, brought);
}

Task<bool> Onboarder::GatherRun(const OnboardRequest& request, Urgency urgency, Brought* brought) {
  const std::vector<BlockKey>& keys = request.run.keys;
  std::vector<Wanted>& wanted = brought->blocks;
  if (brought->rounds > 0) {
    const size_t first = wanted.size();
    Fetcher::Asker asker = AskerOf(request, urgency);
    Fetcher::Started started = co_await flows_.fetcher->Start(request.run, first, std::move(asker));
    if (wanted.size() < first) co_return false;  // An earlier block was dropped meanwhile.
    brought->elsewhere = started.missed;
    // The coordinator is asked once more for the rest of what it named.
    if (started.more) --brought->rounds;
    if (started.loads.empty()) {
      // Another asker may have brought the block while we asked.
      std::optional<Wanted> local = WantLocal(keys[wanted.size()], request, urgency);
      if (!local.has_value()) co_return false;
      wanted.push_back(*std::move(local));
    }
    for (SharedLoad& load : started.loads) wanted.push_back(Coming(std::move(load), urgency));
  }
  while (wanted.size() < keys.size()) {
    std::optional<Wanted> local = WantLocal(keys[wanted.size()], request, urgency);
    if (!local.has_value()) break;
    wanted.push_back(*std::move(local));
    if (wanted.size() % kKeysPerTurn > 0) continue;
    const size_t found = wanted.size();
    co_await flows_.turns->GiveWay(request.run.payer());
    if (wanted.size() < found) co_return false;  // One of these blocks was dropped meanwhile.
  }
  co_return wanted.size() < keys.size() && !request.local_only &&
      brought->rounds++ < kMaxLocateRounds;
}

Task<bool> Onboarder::GatherSet(const OnboardRequest& request, Urgency urgency, Brought* brought) {
  const std::vector<BlockKey>& keys = request.run.keys;
  std::vector<Wanted>& wanted = brought->blocks;
  if (brought->rounds++ == 0) {
    wanted.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (std::optional<Wanted> local = WantLocal(keys[i], request, urgency)) {
        wanted[i] = *std::move(local);
      } else {
        brought->absent.push_back(i);
      }
      if ((i + 1) % kKeysPerTurn == 0) co_await flows_.turns->GiveWay(request.run.payer());
    }
    flows_.stats->disk_misses += brought->absent.size();
    if (!brought->absent.empty() && !request.local_only) co_return true;
    flows_.stats->tenants.CountMisses(request.run.domain, brought->absent.size());
    co_return false;
  }
  BlockRun rest = request.run;
  rest.keys.clear();
  for (const size_t i : brought->absent) rest.keys.push_back(keys[i]);
  Fetcher::Asker asker = AskerOf(request, urgency);
  const Fetcher::Started started = co_await flows_.fetcher->Start(rest, 0, std::move(asker));
  brought->elsewhere = started.missed;
  brought->found.clear();
  std::vector<size_t> absent;
  for (const size_t i : brought->absent) {
    if (SharedLoad load = flows_.host_loads->Find(keys[i])) {
      wanted[i] = Coming(std::move(load), urgency);
      brought->found.push_back(i);
    } else if (std::optional<Pin> pin = flows_.index->PinToLease(keys[i], request.run.member)) {
      wanted[i].pin = *std::move(pin);  // The block has come while the call waited.
      brought->found.push_back(i);
    } else {
      absent.push_back(i);
    }
  }
  brought->absent = std::move(absent);
  if (started.more) co_return true;
  flows_.stats->tenants.CountMisses(request.run.domain, brought->absent.size());
  co_return false;
}

void Onboarder::EndGather(const OnboardRequest& request, Brought* brought) {
  const std::vector<BlockKey>& keys = request.run.keys;
  const size_t found = brought->blocks.size();
  // A block that was dropped meanwhile has said why.
  if (found == keys.size() || brought->first_missing <= found) return;
  flows_.stats->disk_misses += keys.size() - found;
  flows_.stats->tenants.CountMisses(request.run.domain, keys.size() - found);
  brought->first_missing = found;
  brought->missed = WhyNotGathered(keys[found], *brought);
}

MissReason Onboarder::WhyNotGathered(const BlockKey& key, const Brought& brought) const {
  const MissReason elsewhere = brought.elsewhere.Of(key);
  if (elsewhere != MissReason::kAbsent) return elsewhere;
  // The loader's queue had no place for it.
  const bool is_on_disk = flows_.index->In(Tier::kDisk, key);
  if (is_on_disk && !flows_.index->In(Tier::kHost, key)) return MissReason::kBusy;
  return WhyAbsent(key);
}

Fetcher::Asker Onboarder::AskerOf(const OnboardRequest& request, Urgency urgency) const {
  Fetcher::Asker asker{.deadline = request.deadline, .turn_by = request.deadline};
  // A prefetch is answered at once.
  if (urgency == Urgency::kPrefetch) return asker;
  // Time is left to copy to the GPU what is here already.
  const absl::Time now = flows_.executor->Now();
  if (request.gpu != nullptr) asker.turn_by = now + (request.deadline - now) / 2;
  asker.is_over = [sessions = flows_.sessions, session = request.run.session,
                   is_cancelled = request.is_cancelled] {
    return !sessions->IsOpen(session) || (is_cancelled != nullptr && *is_cancelled);
  };
  return asker;
}

std::optional<Onboarder::Wanted> Onboarder::WantLocal(const BlockKey& key,
                                                      const OnboardRequest& request,
                                                      Urgency urgency) {
  if (request.gpu != nullptr) {
    if (std::optional<Pin> pin = request.gpu->PinOf(key)) {
      return Wanted{.pin = *std::move(pin), .from = Tier::kGpu};
    }
  }
  if (std::optional<Pin> pin = flows_.index->PinToLease(key, request.run.member)) {
    return Wanted{.pin = *std::move(pin), .from = Tier::kHost};
  }
  ++flows_.stats->host.misses;
  // The block is about to leave, or the asker may pin no more of it.
  if (flows_.index->In(Tier::kHost, key)) return std::nullopt;
  if (SharedLoad load = flows_.host_loads->Find(key)) {
    if (load->from == Tier::kDisk && urgency == Urgency::kForeground) {
      flows_.disk->MoveToForeground(key);
    }
    return Coming(std::move(load), urgency);
  }
  if (flows_.disk != nullptr && flows_.index->In(Tier::kDisk, key)) {
    SharedLoad load = flows_.disk->Start({.key = key,
                                          .domain = request.run.domain,
                                          .member = request.run.member,
                                          .lengths = request.run.lengths,
                                          .urgency = urgency,
                                          .hint = request.run.hint});
    if (load != nullptr) return Wanted{.load = std::move(load), .from = Tier::kDisk};
  }
  return std::nullopt;
}

MissReason Onboarder::WhyAbsent(const BlockKey& key) const {
  if (flows_.index->In(Tier::kHost, key)) return MissReason::kNoRoom;
  return flows_.evictor->WasEvicted(key) ? MissReason::kEvicted : MissReason::kAbsent;
}

Task<void> Onboarder::AwaitReady(Brought* brought, const OnboardRequest& request) {
  std::vector<Wanted>& blocks = brought->blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    MissReason missed = MissReason::kNone;
    if (!blocks[i].pin && blocks[i].load == nullptr) {
      Drop(request, i, WhyNotGathered(request.run.keys[i], *brought), brought);
      continue;
    }
    const bool ready = co_await AwaitOne(request, &blocks[i], &missed);
    if (!ready) Drop(request, i, missed, brought);
    if ((i + 1) % kKeysPerTurn == 0) co_await flows_.turns->GiveWay(request.run.payer());
  }
}

Task<bool> Onboarder::AwaitOne(const OnboardRequest& request, Wanted* wanted, MissReason* missed) {
  if (wanted->pin) co_return true;
  const bool done = co_await flows_.waits->Until(&wanted->load->done, request.deadline);
  if (!done) {
    *missed = MissReason::kDeadline;
    co_return false;
  }
  co_return Settle(request, wanted, missed);
}

bool Onboarder::Settle(const OnboardRequest& request, Wanted* wanted, MissReason* missed) {
  const SharedLoad load = std::move(wanted->load);
  if (!load->status.ok()) {
    *missed = ReasonOf(load->status);
    return false;
  }
  std::optional<Pin> pin = load->pin.AgainFor(request.run.member);
  if (!pin.has_value()) {
    *missed = MissReason::kNoRoom;
    return false;
  }
  wanted->pin = *std::move(pin);
  return true;
}

void Onboarder::Drop(const OnboardRequest& request, size_t index, MissReason missed,
                     Brought* brought) {
  std::vector<Wanted>& blocks = brought->blocks;
  if (missed == MissReason::kAbsent) missed = WhyAbsent(request.run.keys[index]);
  if (missed == MissReason::kDeadline) {
    flows_.stats->deadline_misses += request.run.is_set ? 1 : blocks.size() - index;
  }
  if (index < brought->first_missing) {
    brought->first_missing = index;
    brought->missed = missed;
  }
  if (request.run.is_set) {
    blocks[index] = Wanted();
  } else {
    blocks.resize(index);
  }
}

absl::StatusOr<Onboarded> Onboarder::GrantLeases(const OnboardRequest& request, Brought brought) {
  KVT_RETURN_IF_ERROR(CheckSession(request));
  Onboarded onboarded{.missed = brought.missed,
                      .lease_deadline = flows_.executor->Now() + kLeaseDuration};
  onboarded.blocks.reserve(brought.blocks.size());
  GrantSome(request, 0, brought.blocks.size(), &brought, &onboarded);
  NoteUse(request, onboarded.blocks);
  return onboarded;
}

Task<absl::StatusOr<Onboarded>> Onboarder::GrantInTurns(const OnboardRequest& request,
                                                        Brought brought) {
  KVT_CO_RETURN_IF_ERROR(CheckSession(request));
  Onboarded onboarded{.missed = brought.missed,
                      .lease_deadline = flows_.executor->Now() + kLeaseDuration};
  onboarded.blocks.reserve(brought.blocks.size());
  for (size_t first = 0; first < brought.blocks.size(); first += kKeysPerTurn) {
    if (!GrantSome(request, first, kKeysPerTurn, &brought, &onboarded)) break;
    if (brought.blocks.size() <= first + kKeysPerTurn) break;
    co_await flows_.turns->GiveWay(request.run.payer());
    KVT_CO_RETURN_IF_ERROR(CheckSession(request));
  }
  // The last stretch is touched first, so that the head of a run is the most recently used.
  const std::span<const LeasedBlock> leased = onboarded.blocks;
  std::vector<std::vector<const HostBlock*>> used;
  for (size_t end = leased.size(); end > 0;) {
    const size_t first = (end - 1) / kKeysPerTurn * kKeysPerTurn;
    used.push_back(Touch(request, leased.subspan(first, end - first)));
    end = first;
    if (end == 0) break;
    co_await flows_.turns->GiveWay(request.run.payer());
    KVT_CO_RETURN_IF_ERROR(CheckSession(request));
  }
  if (flows_.offloader != nullptr) {
    for (auto stretch = used.rbegin(); stretch != used.rend(); ++stretch) {
      flows_.offloader->Used(*stretch);
    }
  }
  co_return onboarded;
}

bool Onboarder::GrantSome(const OnboardRequest& request, size_t first, size_t count,
                          Brought* brought, Onboarded* onboarded) {
  for (size_t i = first; i < std::min(first + count, brought->blocks.size()); ++i) {
    if (!IsReady(request, i, brought)) continue;
    if (GrantOne(request, i, std::move(brought->blocks[i]), onboarded)) continue;
    onboarded->missed = MissReason::kNoRoom;
    return false;
  }
  onboarded->missed = brought->missed;
  return true;
}

bool Onboarder::IsReady(const OnboardRequest& request, size_t index, Brought* brought) {
  const Pin& pin = brought->blocks[index].pin;
  if (!pin) return false;
  if (!pin.block().is_condemned) return true;
  Drop(request, index, MissReason::kDamaged, brought);
  return false;
}

absl::Status Onboarder::CheckSession(const OnboardRequest& request) const {
  if (flows_.sessions->IsOpen(request.run.session)) return absl::OkStatus();
  return absl::FailedPreconditionError("the session ended while its onboard ran; open another");
}

std::vector<const HostBlock*> Onboarder::Touch(const OnboardRequest& request,
                                               std::span<const LeasedBlock> leased) {
  std::vector<const Pin*> run;
  run.reserve(leased.size());
  for (const LeasedBlock& block : leased) run.push_back(&flows_.leases->PinOf(block.lease));
  return flows_.index->Touch(run, request.run.hint);
}

void Onboarder::NoteUse(const OnboardRequest& request, std::span<const LeasedBlock> leased) {
  const std::vector<const HostBlock*> used = Touch(request, leased);
  if (flows_.offloader != nullptr) flows_.offloader->Used(used);
}

bool Onboarder::GrantOne(const OnboardRequest& request, size_t index, Wanted wanted,
                         Onboarded* onboarded) {
  const ResidentBlock& resident = wanted.pin.block();
  const bool to_gpu = request.target == Tier::kGpu;
  LeasedBlock block{.index = index,
                    .offset = resident.offset,
                    .length = resident.meta.length,
                    .sum = resident.meta.sum,
                    .from = wanted.from};
  std::optional<GpuHold> hold = GpuHold();
  if (to_gpu) hold = request.gpu->Hold(request.run.session, wanted.pin);
  if (!hold.has_value()) return false;
  if (block.from == Tier::kHost || block.from == Tier::kGpu) flows_.index->CountHit(wanted.pin);
  const absl::StatusOr<LeaseId> lease =
      flows_.leases->Grant(request.run.session, request.run.payer(), std::move(wanted.pin),
                           onboarded->lease_deadline + kLeaseGrace, *std::move(hold));
  if (!lease.ok()) return false;
  block.lease = *lease;
  TierStats& served = to_gpu ? flows_.stats->gpu : flows_.stats->host;
  if (block.from == request.target) ++served.hits;
  flows_.stats->tenants.CountHit(request.run.domain, block.from);
  served.bytes_out += block.length;
  onboarded->blocks.push_back(block);
  return true;
}

}  // namespace kvtier
