// What the node's table says of engine keys: names them, and looks. No call, no wait, no
// allocation.
#ifndef KVTIER_CLIENT_RESIDENCY_LOOKUP_H_
#define KVTIER_CLIENT_RESIDENCY_LOOKUP_H_

#include <cstddef>
#include <span>

#include "client/residence.h"
#include "client/residency_view.h"
#include "core/block_key.h"

namespace kvtier {

// Writes what the table says of each key. False: the table is retired; nothing is known, and
// `residences` says kPerhaps of all. REQUIRES: `residences` has a place for each key.
bool LookUpAll(const ResidencyView& view, const BlockNamer& namer, std::span<const EngineKey> keys,
               std::span<Residence> residences);

struct ResidentKeys {
  size_t count = 0;      // Leading keys that are not kAbsent.
  bool retired = false;  // The table is; `count` is the number of keys then.
};
// Counts leading keys, and looks at few behind the last of them.
ResidentKeys LookUpRun(const ResidencyView& view, const BlockNamer& namer,
                       std::span<const EngineKey> keys);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESIDENCY_LOOKUP_H_
