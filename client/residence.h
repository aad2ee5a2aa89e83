// Residence is the answer of this node's residency table for one block.
#ifndef KVTIER_CLIENT_RESIDENCE_H_
#define KVTIER_CLIENT_RESIDENCE_H_

#include <cstdint>

namespace kvtier {

// kGpu, kHost and kDisk name the nearest tier of this node that has the block. kAbsent: no tier has
// it. kPerhaps: the table does not say, and only the agent knows.
enum class Residence : uint8_t { kAbsent, kGpu, kHost, kDisk, kPerhaps };

}  // namespace kvtier

#endif  // KVTIER_CLIENT_RESIDENCE_H_
