#include "agent/fetch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/checksum.h"
#include "core/log.h"

namespace kvtier {
namespace {

// Until a peer was measured: a loaded 10 GbE link.
constexpr absl::Duration kPriorLatency = absl::Milliseconds(2);
constexpr double kPriorBytesPerSecond = 500e6;
// Peers come and go; what is known of more than this many is forgotten.
constexpr size_t kMaxEstimates = 4096;

}  // namespace

// Gives each block that a peer starts to send a slot of its own and hands it over
// for verification when it is whole.
class Fetcher::Arrivals final : public FetchSink {
 public:
  Arrivals(Fetcher* fetcher, const BlockRun* run, const PeerRun* from)
      : fetcher_(fetcher), run_(run), from_(from), arrived_(from->count, false) {}

  std::span<std::byte> Begin(size_t index, const BlockProof& proof) override {
    slot_.Release();
    if (index >= from_->count || arrived_[index] || proof.space != run_->space ||
        proof.length != run_->block_bytes) {
      return {};
    }
    absl::StatusOr<HostSlot> slot = fetcher_->evictor_->ReserveHost(run_->domain, proof.length);
    if (!slot.ok()) return {};
    slot_ = *std::move(slot);
    proof_ = proof;
    return slot_.bytes().first(proof.length);
  }

  void Arrived(size_t index) override {
    arrived_[index] = true;
    bytes_ += proof_.length;
    fetcher_->scope_->Spawn(
        fetcher_->VerifyAndPublish(run_->keys[from_->first + index], proof_, std::move(slot_)));
  }

  bool arrived(size_t index) const { return arrived_[index]; }
  uint64_t bytes() const { return bytes_; }

 private:
  Fetcher* const fetcher_;
  const BlockRun* const run_;
  const PeerRun* const from_;
  std::vector<bool> arrived_;
  HostSlot slot_;
  BlockProof proof_;
  uint64_t bytes_ = 0;
};

Task<LocateReply> Fetcher::Locate(std::vector<BlockKey> keys, absl::Time deadline) {
  if (seams_.coordinator == nullptr || keys.empty()) co_return LocateReply();
  const absl::Time by = std::min(deadline, seams_.executor->Now() + kLocateTimeout);
  absl::StatusOr<LocateReply> located =
      co_await seams_.coordinator->Locate(self_, std::move(keys), by);
  if (!located.ok()) co_return LocateReply();
  co_return *std::move(located);
}

Task<std::vector<SharedLoad>> Fetcher::Start(const BlockRun& run, size_t first,
                                             absl::Time deadline) {
  std::vector<SharedLoad> loads;
  std::vector<BlockKey> keys(run.keys.begin() + first, run.keys.end());
  const LocateReply located = co_await Locate(std::move(keys), deadline);
  const absl::Duration budget = deadline - seams_.executor->Now();
  const EstimateOf estimate_of = [this](const std::string& address) {
    return EstimateFor(address);
  };
  for (PeerRun from : PlanFetch(located, run.block_bytes, budget, estimate_of)) {
    from.first += first;
    // Another asker may have started some of these while we located.
    size_t fresh = 0;
    while (fresh < from.count && loads_->Find(run.keys[from.first + fresh]) == nullptr &&
           !index_->In(Tier::kHost, run.keys[from.first + fresh])) {
      loads.push_back(loads_->Start(run.keys[from.first + fresh], std::nullopt));
      ++fresh;
    }
    const bool whole = fresh == from.count;
    from.count = fresh;
    if (fresh > 0) scope_->Spawn(RunFetch(run, std::move(from), deadline));
    if (!whole) break;
  }
  co_return loads;
}

Task<void> Fetcher::RunFetch(BlockRun run, PeerRun from, absl::Time deadline) {
  Arrivals arrivals(this, &run, &from);
  std::vector<BlockKey> keys(run.keys.begin() + from.first,
                             run.keys.begin() + from.first + from.count);
  const absl::Time start = seams_.executor->Now();
  const absl::Status status =
      co_await seams_.transport->Fetch(from.address, std::move(keys), deadline, &arrivals);
  if (arrivals.bytes() > 0) {
    EstimateFor(from.address).Observe(arrivals.bytes(), seams_.executor->Now() - start);
    estimates_.at(from.address).last = seams_.executor->Now();
  }
  if (absl::IsDeadlineExceeded(status)) ++stats_->peers.timeouts;
  for (size_t i = 0; i < from.count; ++i) {
    if (arrivals.arrived(i)) continue;
    ++stats_->peers.missed_blocks;
    loads_->Finish(run.keys[from.first + i],
                   absl::NotFoundError(absl::StrCat("peer ", from.address,
                                                    " did not send it: ", status.ToString())));
  }
}

Task<void> Fetcher::VerifyAndPublish(BlockKey key, BlockProof proof, HostSlot slot) {
  const BlockIdentity identity{.key = key, .space = proof.space, .length = proof.length};
  absl::Status verified;
  ByteWorkers::Work verify = [&] {
    verified = VerifyBlock(identity, proof.sum, proof.seal, slot.bytes().first(proof.length));
  };
  co_await seams_.workers->Run(std::move(verify));
  if (!verified.ok()) {
    ++stats_->peers.verify_failures;
    Log(LogLevel::kError, absl::StrCat("a peer's block is a miss: ", verified.ToString()));
    loads_->Finish(key, verified);
    co_return;
  }
  ++stats_->peers.fetched_blocks;
  stats_->peers.fetched_bytes += proof.length;
  if (!index_->In(Tier::kHost, key)) {
    index_->PublishHost({.key = key,
                         .parent = proof.parent,
                         .space = proof.space,
                         .length = proof.length,
                         .sum = proof.sum},
                        std::move(slot));
    ++stats_->host.inserts;
    stats_->host.bytes_in += proof.length;
  }
  loads_->Finish(key, absl::OkStatus());
}

TransferEstimate& Fetcher::EstimateFor(const std::string& address) {
  const absl::Time now = seams_.executor->Now();
  const Measured prior{.estimate = TransferEstimate(kPriorLatency, kPriorBytesPerSecond),
                       .last = now};
  const auto known = estimates_.find(address);
  if (known != estimates_.end()) {
    Measured& measured = known->second;
    if (now - measured.last > kPeerEstimateLifetime) measured = prior;
    return measured.estimate;
  }
  if (estimates_.size() >= kMaxEstimates) estimates_.clear();
  return estimates_.emplace(address, prior).first->second.estimate;
}

}  // namespace kvtier
