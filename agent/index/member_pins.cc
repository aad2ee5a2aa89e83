#include "agent/index/member_pins.h"

#include <algorithm>

#include "agent/limits.h"
#include "core/check.h"

namespace kvtier {

bool MemberPins::Take(const ResidentBlock* block, uint64_t bytes, const Group& group,
                      DomainId member) {
  const auto found = pinned_.find(block);
  if (found != pinned_.end()) {
    std::vector<Holder>& holders = found->second.holders;
    const auto holder = std::ranges::find(holders, member, &Holder::member);
    if (holder != holders.end()) {
      ++holder->pins;
    } else {
      holders.push_back({.member = member, .pins = 1});
    }
    return true;
  }
  const uint64_t own = BytesOf(group.domain, member);
  uint64_t& total = totals_[group.domain];
  const uint64_t others = total - own;
  const uint64_t left = group.bytes - std::min(group.bytes, others);
  const bool fits = own + bytes <= left / kMemberPinPart &&
                    total + bytes <= group.bytes - group.bytes / kGroupLeftPart;
  if (!fits) return false;
  Pinned& pinned = pinned_[block];
  pinned = {.bytes = bytes, .group = group.domain, .holders = {{.member = member, .pins = 1}}};
  Add(&bytes_, pinned);
  total += bytes;
  return true;
}

void MemberPins::Add(Bytes* bytes, const Pinned& pinned) {
  (*bytes)[{pinned.group, pinned.holders.front().member}] += pinned.bytes;
}

void MemberPins::GiveBack(const ResidentBlock* block, DomainId member) {
  const auto found = pinned_.find(block);
  KVT_CHECK(found != pinned_.end());
  Pinned& pinned = found->second;
  const auto holder = std::ranges::find(pinned.holders, member, &Holder::member);
  KVT_CHECK(holder != pinned.holders.end());
  if (--holder->pins > 0) return;
  const bool counted = holder == pinned.holders.begin();
  pinned.holders.erase(holder);
  if (!counted) return;
  const auto own = bytes_.find({pinned.group, member});
  if ((own->second -= pinned.bytes) == 0) bytes_.erase(own);
  if (!pinned.holders.empty()) return Add(&bytes_, pinned);
  totals_.at(pinned.group) -= pinned.bytes;
  pinned_.erase(found);
}

uint64_t MemberPins::BytesOf(DomainId group, DomainId member) const {
  const auto found = bytes_.find({group, member});
  return found == bytes_.end() ? 0 : found->second;
}

void MemberPins::Audit() const {
  Bytes bytes;
  absl::flat_hash_map<DomainId, uint64_t> totals;
  for (const auto& [block, pinned] : pinned_) {
    KVT_CHECK(!pinned.holders.empty());
    size_t pins = 0;
    for (const Holder& holder : pinned.holders) {
      KVT_CHECK(holder.pins > 0);
      pins += holder.pins;
    }
    KVT_CHECK(pins <= block->pins);
    Add(&bytes, pinned);
    totals[pinned.group] += pinned.bytes;
  }
  KVT_CHECK(bytes == bytes_);
  for (const auto& [group, total] : totals_) KVT_CHECK(totals[group] == total);
}

}  // namespace kvtier
