#include "agent/flows/keep_prefix.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/block_key.h"
#include "core/checksum.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::Status CheckTtl(absl::Duration ttl) {
  if (ttl >= kMinKeptTtl && ttl <= kMaxKeptTtl) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "ttl_ms: ", absl::ToInt64Milliseconds(ttl), "; must be ",
      absl::ToInt64Milliseconds(kMinKeptTtl), " to ", absl::ToInt64Milliseconds(kMaxKeptTtl)));
}

// Returns a sum that tells the keys of these sequences from others of the tenant.
PayloadSum IdentityOf(const std::vector<BlockRun>& sequences) {
  std::vector<PayloadSum> sums;
  for (const BlockRun& sequence : sequences) {
    sums.push_back(SumPayload(std::as_bytes(std::span(sequence.keys))));
    sums.push_back({.hi = sequence.is_set ? 1u : 0u, .lo = sequence.keys.size()});
  }
  return SumPayload(std::as_bytes(std::span(sums)));
}

std::vector<OnboardRequest> LoadsOf(KeepRequest request) {
  std::vector<OnboardRequest> loads;
  loads.reserve(request.sequences.size());
  for (BlockRun& run : request.sequences) {
    loads.push_back({.run = std::move(run),
                     .deadline = request.deadline,
                     .local_only = true,
                     .urgency = Urgency::kPrefetch});
  }
  return loads;
}

}  // namespace

bool PrefixKeeper::Cut(std::vector<BlockRun>* sequences) const {
  const KeptPrefixes::Use quota = parts_.kept->QuotaOf(sequences->front().domain);
  uint64_t bytes = quota.bytes;
  bool is_cut = false;
  for (BlockRun& run : *sequences) {
    if (run.lengths.any) continue;  // Only the blocks themselves tell their lengths.
    const uint64_t slot_bytes = SlotBytes(run.lengths.longest);
    const uint64_t fit = std::min<uint64_t>(run.keys.size(), bytes / slot_bytes);
    is_cut |= fit < run.keys.size();
    run.keys.resize(fit);
    bytes -= fit * slot_bytes;
  }
  return is_cut;
}

Task<absl::StatusOr<Kept>> PrefixKeeper::Keep(KeepRequest request) {
  KVT_CO_RETURN_IF_ERROR(CheckTtl(request.ttl));
  const DomainId domain = request.sequences.front().domain;
  const DomainId payer = request.sequences.front().payer();
  const uint64_t erasures = parts_.onboarder->index()->erasures(domain);
  const PayloadSum identity = IdentityOf(request.sequences);
  const absl::Time wait_until = request.deadline;
  const absl::Duration ttl = request.ttl;
  const bool is_cut = Cut(&request.sequences);
  const std::vector<OnboardRequest> loads = LoadsOf(std::move(request));
  std::vector<Onboarder::Brought> brought = co_await parts_.onboarder->BringAll(&loads);
  Kept kept;
  for (const Onboarder::Brought& of : brought) kept.sequences.push_back({.missed = of.missed});
  KeptPrefixes::Begun begun;
  while (true) {
    if (parts_.onboarder->index()->erasures(domain) != erasures) co_return kept;
    begun = parts_.kept->Begin(domain, identity, parts_.executor->Now() + ttl);
    if (!begun.is_being_filled) break;
    const std::shared_ptr<Event> filled = filling_.at(begun.handle);
    if (!co_await parts_.waits->Until(filled.get(), wait_until)) co_return kept;
  }
  kept.limit = begun.limit;
  if (begun.limit != KeepLimit::kNone) {
    parts_.kept->NoteRefused(domain);
    co_return kept;
  }
  const auto filled = std::make_shared<Event>(parts_.executor);
  filling_[begun.handle] = filled;
  const bool is_there = co_await Fill({.handle = begun.handle, .payer = payer}, &brought, &kept);
  filling_.erase(begun.handle);
  filled->Set();
  if (!is_there) {
    for (Kept::Sequence& sequence : kept.sequences) sequence.indices.clear();
    co_return kept;
  }
  const KeptId id = parts_.kept->IdOf(begun.handle);
  const absl::Time deadline = parts_.kept->DeadlineOf(begun.handle);
  parts_.kept->Filled(begun.handle);
  if (parts_.kept->Has(begun.handle)) {
    kept.id = id;
    kept.deadline = deadline;
  }
  if (is_cut && kept.limit == KeepLimit::kNone) kept.limit = KeepLimit::kTenantBytes;
  if (kept.limit != KeepLimit::kNone) parts_.kept->NoteRefused(domain);
  co_return kept;
}

Task<bool> PrefixKeeper::Fill(Filling filling, std::vector<Onboarder::Brought>* brought,
                              Kept* kept) {
  const auto [handle, payer] = filling;
  // The pins of the blocks that were brought hold them meanwhile.
  while (parts_.kept->Shrink(handle, kKeysPerTurn)) {
    co_await parts_.turns->GiveWay(payer);
    if (!parts_.kept->Has(handle)) co_return false;
  }
  size_t added = 0;
  for (size_t i = 0; i < brought->size(); ++i) {
    std::vector<Onboarder::Wanted>& blocks = (*brought)[i].blocks;
    for (size_t key = 0; key < blocks.size(); ++key) {
      if (!blocks[key].pin || blocks[key].pin.block().is_condemned) continue;
      kept->limit = parts_.kept->Add(handle, blocks[key].pin.key());
      if (kept->limit != KeepLimit::kNone) co_return true;
      blocks[key].pin.Release();
      kept->sequences[i].indices.push_back(key);
      if (++added % kKeysPerTurn > 0) continue;
      co_await parts_.turns->GiveWay(payer);
      if (!parts_.kept->Has(handle)) co_return false;
    }
  }
  co_return true;
}

Task<size_t> PrefixKeeper::End(DomainId domain, KeptId id) {
  std::vector<KeptId> ids;
  if (id != KeptId{}) {
    ids.push_back(id);
  } else {
    for (const auto& listed : parts_.kept->List(domain, absl::InfinitePast())) {
      ids.push_back(listed.id);
    }
  }
  size_t ended = 0;
  for (const KeptId each : ids) {
    const std::optional<KeptPrefixes::Handle> handle = parts_.kept->Find(domain, each);
    if (!handle.has_value()) continue;
    while (parts_.kept->Has(*handle) && parts_.kept->Shrink(*handle, kKeysPerTurn)) {
      co_await parts_.turns->GiveWay(domain);
    }
    ++ended;
    if (parts_.kept->Has(*handle)) parts_.kept->Erase(*handle);
  }
  co_return ended;
}

}  // namespace kvtier
