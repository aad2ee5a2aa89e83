// Why a block that was asked for did not come.
#ifndef KVTIER_CORE_MISS_REASON_H_
#define KVTIER_CORE_MISS_REASON_H_

#include <cstdint>

namespace kvtier {

enum class MissReason : uint8_t {
  kNone,      // Nothing is missing.
  kAbsent,    // No tier that was asked has it.
  kDeadline,  // It did not come in time.
  kNoRoom,    // There was no room for it, or no lease left.
  kDamaged,   // Its bytes were not what they must be.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_MISS_REASON_H_
