#include "agent/host_prover.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/checksum.h"
#include "core/log.h"

namespace kvtier {

void HostProver::Suspect(const BlockKey& key) {
  if (suspects_.size() > kMaxSuspects || std::ranges::find(suspects_, key) != suspects_.end()) {
    return;
  }
  suspects_.push_back(key);
  if (suspects_.size() == 1) parts_.scope->Spawn(ProveSuspects());
}

Task<void> HostProver::ProveSuspects() {
  while (!suspects_.empty()) {
    co_await Prove(suspects_.front());
    suspects_.pop_front();
  }
}

Task<bool> HostProver::Prove(BlockKey key) {
  const std::optional<Pin> pin = parts_.index->PinIn(Tier::kHost, key);
  if (!pin.has_value()) co_return true;
  const BlockIndex::Entry& entry = *parts_.index->Find(key);
  const std::span<const std::byte> payload = entry.host.bytes().first(entry.meta.length);
  const PayloadSum expected = entry.meta.sum;
  bool whole = false;
  ByteWorkers::Work compare = [&] { whole = SumPayload(payload) == expected; };
  co_await parts_.workers->Run(std::move(compare));
  ++parts_.stats->verified;
  if (!whole) Condemn(key);
  co_return whole;
}

void HostProver::Condemn(const BlockKey& key) {
  if (!condemned_.insert(key).second) return;
  ++parts_.stats->verify_failures;
  Log(LogLevel::kError,
      absl::StrCat("block ", key.ToHex(), " changed in host memory after its commit: dropped"));
  Sweep();
}

void HostProver::Sweep() {
  absl::erase_if(condemned_, [this](const BlockKey& key) {
    if (!parts_.index->In(Tier::kHost, key)) return true;
    if (parts_.index->IsPinnedInHost(key)) return false;
    parts_.evictor->DropFromHost(key);
    return true;
  });
}

}  // namespace kvtier
