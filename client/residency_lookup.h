// These functions name engine keys and look them up in the node's residency table, without a call,
// a wait or an allocation.
#ifndef KVTIER_CLIENT_RESIDENCY_LOOKUP_H_
#define KVTIER_CLIENT_RESIDENCY_LOOKUP_H_

#include <cstddef>
#include <span>

#include "client/residence.h"
#include "client/residency_view.h"
#include "core/block_key.h"

namespace kvtier {

// Writes the table's answer for each key. Returns false if the table is retired: nothing is known,
// and all `residences` are kPerhaps. REQUIRES: `residences` has a place for each key.
bool LookUpAll(const ResidencyView& view, const BlockNamer& namer, std::span<const EngineKey> keys,
               std::span<Residence> residences);

struct ResidentKeys {
  size_t count = 0;      // Number of leading keys that are not kAbsent.
  bool retired = false;  // The table is retired; `count` is then the number of keys.
};
// Counts leading keys; it looks at only a few keys after the last of them.
ResidentKeys LookUpRun(const ResidencyView& view, const BlockNamer& namer,
                       std::span<const EngineKey> keys);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESIDENCY_LOOKUP_H_
