// These functions turn kept prefixes into kvtier.v1 messages, for workers and for operators.
#ifndef KVTIER_AGENT_SERVICES_KEPT_WIRE_H_
#define KVTIER_AGENT_SERVICES_KEPT_WIRE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "agent/flows/delete_blocks.h"
#include "agent/sessions/kept_prefixes.h"
#include "kvtier/v1/block.pb.h"

namespace kvtier {

template <typename Message>
void FillDeleted(const Deleted& deleted, Message* wire) {
  wire->set_deleted_blocks(deleted.blocks);
  wire->set_held_blocks(deleted.held);
  wire->set_more(!deleted.is_whole);
}

// Returns the milliseconds that are left of a kept prefix; 0: its time is over.
inline uint32_t MillisLeft(absl::Time deadline, absl::Time now) {
  return static_cast<uint32_t>(
      absl::ToInt64Milliseconds(std::max(deadline - now, absl::ZeroDuration())));
}

inline void FillKeptUse(const KeptPrefixes::Use& use, v1::KeptUse* wire) {
  wire->set_prefixes(use.prefixes);
  wire->set_blocks(use.blocks);
  wire->set_bytes(use.bytes);
}

// Adds what the domain keeps at `now`, and may keep, to a message that lists it.
template <typename Message>
void FillKept(const KeptPrefixes& kept, DomainId domain, absl::Time now, Message* wire) {
  for (const KeptPrefixes::Listed& listed : kept.List(domain, now)) {
    v1::KeptPrefix* const prefix = wire->add_prefixes();
    prefix->set_id(static_cast<uint64_t>(listed.id));
    prefix->set_blocks(listed.blocks);
    prefix->set_bytes(listed.bytes);
    prefix->set_ttl_left_ms(MillisLeft(listed.deadline, now));
  }
  FillKeptUse(kept.UseOf(domain), wire->mutable_used());
  FillKeptUse(kept.QuotaOf(domain), wire->mutable_quota());
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_KEPT_WIRE_H_
