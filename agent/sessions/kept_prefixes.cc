#include "agent/sessions/kept_prefixes.h"

#include <algorithm>

#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

KeptPrefixes::Begun KeptPrefixes::Begin(DomainId domain, const PayloadSum& identity,
                                        absl::Time deadline) {
  Domain& of = domains_[domain];
  for (const auto& [id, handle] : of.prefixes) {
    Prefix* const prefix = prefixes_.Find(handle);
    if (prefix->identity != identity) continue;
    if (prefix->is_being_filled) return {.handle = handle, .is_being_filled = true};
    prefix->is_being_filled = true;
    prefixes_.Postpone(handle, std::max(deadline, prefixes_.DeadlineOf(handle)));
    return {.handle = handle};
  }
  if (of.prefixes.size() >= kMaxKeptPrefixesPerDomain) return {.limit = KeepLimit::kTenantPrefixes};
  if (prefixes_.size() >= kMaxKeptPrefixes) return {.limit = KeepLimit::kNodePrefixes};
  const KeptId id{++of.numbered};
  const Handle handle = prefixes_.Add(
      {.domain = domain, .id = id, .identity = identity, .is_being_filled = true}, deadline);
  of.prefixes.emplace(id, handle);
  ++of.use.prefixes;
  return {.handle = handle};
}

KeptPrefixes::Use KeptPrefixes::QuotaOf(DomainId domain) const {
  return {.prefixes = kMaxKeptPrefixesPerDomain,
          .blocks = kMaxKeptBlocksPerDomain,
          .bytes = parts_.shares->Of(domain).guaranteed * parts_.host->slab_bytes() / kKeptPart};
}

uint64_t KeptPrefixes::RefusedOf(DomainId domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end() ? 0 : found->second.refused;
}

KeptPrefixes::Use KeptPrefixes::UseOf(DomainId domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end() ? Use() : found->second.use;
}

KeptNumber KeptPrefixes::TakeNumber(const HostBlock& block) {
  if (blocks_.size() == 0) blocks_.Grow();
  uint32_t number = free_;
  if (number == 0) {
    number = static_cast<uint32_t>(blocks_.size());
    blocks_.Grow();
  } else {
    free_ = blocks_[number].next;
  }
  blocks_[number] = {.key = block.meta.key, .bytes = block.slot.slot_bytes()};
  parts_.index->Keep(block.meta.key, KeptNumber{number});
  return KeptNumber{number};
}

KeepLimit KeptPrefixes::Add(Handle handle, const BlockKey& key) {
  Prefix* const prefix = prefixes_.Find(handle);
  const HostBlock* const block = parts_.index->Find(key);
  KVT_CHECK(prefix != nullptr && block != nullptr && block->slot.domain() == prefix->domain);
  Use& use = domains_.at(prefix->domain).use;
  const Use quota = QuotaOf(prefix->domain);
  if (use.blocks >= quota.blocks) return KeepLimit::kTenantBlocks;
  if (kept_ >= kMaxKeptBlocks) return KeepLimit::kNodeBlocks;
  KeptNumber number = block->kept;
  if (number == KeptNumber{}) {
    const uint64_t bytes = block->slot.slot_bytes();
    if (use.bytes + bytes > quota.bytes) return KeepLimit::kTenantBytes;
    use.bytes += bytes;
    number = TakeNumber(*block);
  }
  ++At(number).uses;
  ++use.blocks;
  ++kept_;
  prefix->blocks.push_back(number);
  return KeepLimit::kNone;
}

void KeptPrefixes::NoteGone(DomainId domain, KeptNumber number) {
  domains_.at(domain).use.bytes -= std::exchange(At(number).bytes, 0);
}

void KeptPrefixes::LetGo(DomainId domain, KeptNumber number) {
  Block& block = At(number);
  --domains_.at(domain).use.blocks;
  --kept_;
  if (--block.uses > 0) return;
  if (block.bytes > 0) {
    parts_.index->Unkeep(block.key);
    NoteGone(domain, number);
  }
  block.next = std::exchange(free_, static_cast<uint32_t>(number));
}

bool KeptPrefixes::Shrink(Handle handle, size_t limit) {
  Prefix* const prefix = prefixes_.Find(handle);
  for (; limit > 0 && !prefix->blocks.empty(); --limit) {
    LetGo(prefix->domain, prefix->blocks.back());
    prefix->blocks.pop_back();
  }
  return !prefix->blocks.empty();
}

void KeptPrefixes::Filled(Handle handle) {
  Prefix* const prefix = prefixes_.Find(handle);
  prefix->is_being_filled = false;
  if (prefix->blocks.empty()) Erase(handle);
}

void KeptPrefixes::Erase(Handle handle) {
  const Prefix& prefix = *prefixes_.Find(handle);
  KVT_CHECK(prefix.blocks.empty());
  Domain& of = domains_.at(prefix.domain);
  of.prefixes.erase(prefix.id);
  --of.use.prefixes;
  prefixes_.Erase(handle);
}

std::optional<KeptPrefixes::Handle> KeptPrefixes::Find(DomainId domain, KeptId id) const {
  const auto of = domains_.find(domain);
  if (of == domains_.end()) return std::nullopt;
  const auto found = of->second.prefixes.find(id);
  return found == of->second.prefixes.end() ? std::nullopt : std::optional(found->second);
}

std::vector<KeptPrefixes::Listed> KeptPrefixes::List(DomainId domain, absl::Time now) const {
  std::vector<Listed> all;
  const auto of = domains_.find(domain);
  if (of == domains_.end()) return all;
  for (const auto& [id, handle] : of->second.prefixes) {
    Listed listed{.id = id, .deadline = prefixes_.DeadlineOf(handle)};
    if (listed.deadline < now) continue;
    for (const KeptNumber number : prefixes_.Find(handle)->blocks) {
      listed.blocks += At(number).bytes > 0 ? 1 : 0;
      listed.bytes += At(number).bytes;
    }
    all.push_back(listed);
  }
  return all;
}

void KeptPrefixes::LetGoOf(const BlockKey& key) {
  const HostBlock* const block = parts_.index->Find(key);
  if (block == nullptr || block->kept == KeptNumber{}) return;
  NoteGone(block->slot.domain(), block->kept);
  parts_.index->Unkeep(key);
}

void KeptPrefixes::OnChange(const BlockChange& change) {
  if (change.was_kept != KeptNumber{}) NoteGone(*change.domain, change.was_kept);
}

void KeptPrefixes::EndEmpty(DomainId domain) {
  const auto of = domains_.find(domain);
  if (of == domains_.end()) return;
  std::vector<Handle> empty;
  for (const auto& [id, handle] : of->second.prefixes) {
    const Prefix& prefix = *prefixes_.Find(handle);
    const bool is_empty = std::ranges::all_of(
        prefix.blocks, [this](KeptNumber number) { return At(number).bytes == 0; });
    if (is_empty && !prefix.is_being_filled) empty.push_back(handle);
  }
  for (const Handle handle : empty) {
    Shrink(handle, kMaxKeptBlocks);
    Erase(handle);
  }
}

bool KeptPrefixes::EndSome(DomainId domain, size_t limit) {
  const auto of = domains_.find(domain);
  if (of == domains_.end()) return false;
  while (!of->second.prefixes.empty()) {
    if (!End(of->second.prefixes.begin()->second, &limit)) return true;
  }
  return false;
}

bool KeptPrefixes::End(Handle handle, size_t* left) {
  const size_t blocks = prefixes_.Find(handle)->blocks.size();
  if (Shrink(handle, *left)) {
    *left = 0;
    return false;
  }
  *left -= blocks;
  Erase(handle);
  return true;
}

std::optional<KeptPrefixes::Handle> KeptPrefixes::NextToEnd(const Domain& of) const {
  std::optional<Handle> next;
  for (const auto& [id, handle] : of.prefixes) {
    if (prefixes_.Find(handle)->is_being_filled) continue;
    if (!next.has_value() || prefixes_.DeadlineOf(handle) < prefixes_.DeadlineOf(*next)) {
      next = handle;
    }
  }
  return next;
}

void KeptPrefixes::Sweep(absl::Time now) {
  size_t left = kEndedPerSweep;
  while (const std::optional<Handle> handle = prefixes_.Overdue(now)) {
    if (!End(*handle, &left)) return;
  }
  for (const auto& [domain, of] : domains_) {
    while (of.use.bytes > QuotaOf(domain).bytes) {
      const std::optional<Handle> handle = NextToEnd(of);
      if (!handle.has_value()) break;
      if (!End(*handle, &left)) return;
    }
  }
}

void KeptPrefixes::Audit() const {
  prefixes_.Audit();
  absl::flat_hash_map<DomainId, Use> uses;
  absl::flat_hash_map<KeptNumber, uint32_t> by_block;
  absl::flat_hash_map<KeptNumber, DomainId> domain_of;
  size_t kept = 0;
  prefixes_.ForEach([&](Handle handle, const Prefix& prefix) {
    KVT_CHECK(Find(prefix.domain, prefix.id) == handle);
    ++uses[prefix.domain].prefixes;
    uses[prefix.domain].blocks += prefix.blocks.size();
    kept += prefix.blocks.size();
    for (const KeptNumber number : prefix.blocks) {
      if (++by_block[number] == 1) uses[prefix.domain].bytes += At(number).bytes;
      KVT_CHECK(domain_of.try_emplace(number, prefix.domain).first->second == prefix.domain);
    }
  });
  KVT_CHECK(kept == kept_ && kept_ <= kMaxKeptBlocks && prefixes_.size() <= kMaxKeptPrefixes);
  size_t there = 0;
  for (const auto& [number, count] : by_block) {
    const Block& block = At(number);
    KVT_CHECK(block.uses == count);
    if (block.bytes == 0) continue;
    const HostBlock* const in_index = parts_.index->Find(block.key);
    KVT_CHECK(in_index != nullptr && in_index->kept == number);
    KVT_CHECK(in_index->slot.slot_bytes() == block.bytes);
    ++there;
  }
  parts_.index->ForEachInHost(
      [&](const HostBlock& block) { there -= block.kept != KeptNumber{} ? 1 : 0; });
  KVT_CHECK(there == 0);
  for (const auto& [domain, of] : domains_) {
    KVT_CHECK(of.use == uses[domain]);
    KVT_CHECK(of.use.prefixes <= kMaxKeptPrefixesPerDomain);
    KVT_CHECK(of.use.blocks <= kMaxKeptBlocksPerDomain);
  }
}

}  // namespace kvtier
