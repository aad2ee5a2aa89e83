#include "agent/index/host_prover.h"

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
  std::vector<BlockKey> keys = {key};
  const Proven proven = co_await ProveAll(std::move(keys));
  co_return proven.altered == 0;
}

std::vector<HostProver::Subject> HostProver::SubjectsOf(std::span<const BlockKey> keys) {
  std::vector<Subject> subjects;
  subjects.reserve(keys.size());
  for (const BlockKey& key : keys) {
    std::optional<Pin> pin = parts_.index->PinOf(key);
    if (!pin.has_value()) continue;
    const HostBlock& block = *parts_.index->Find(key);
    subjects.push_back({.pin = *std::move(pin),
                        .payload = block.slot.bytes().first(block.meta.length),
                        .expected = block.meta.sum});
  }
  return subjects;
}

Task<HostProver::Proven> HostProver::ProveAll(std::vector<BlockKey> keys) {
  std::vector<Subject> subjects = SubjectsOf(keys);
  Proven proven;
  if (subjects.empty()) co_return proven;
  ByteThreads::Work compare = [&] {
    for (Subject& subject : subjects) {
      subject.whole = SumPayload(subject.payload) == subject.expected;
    }
  };
  co_await parts_.byte_threads->Run(std::move(compare));
  for (Subject& subject : subjects) {
    ++proven.blocks;
    proven.bytes += subject.payload.size();
    ++parts_.stats->verified;
    if (subject.whole) continue;
    ++proven.altered;
    if (Condemn(subject.pin)) ++proven.news;
  }
  co_return proven;
}

bool HostProver::Condemn(const Pin& pin) {
  if (!parts_.index->Condemn(pin)) return false;
  ++parts_.stats->verify_failures;
  Log(LogLevel::kError, absl::StrCat("block ", pin.key().ToHex(),
                                     " changed in host memory after its commit: dropped"));
  return true;
}

}  // namespace kvtier
