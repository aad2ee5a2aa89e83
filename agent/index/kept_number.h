#ifndef KVTIER_AGENT_INDEX_KEPT_NUMBER_H_
#define KVTIER_AGENT_INDEX_KEPT_NUMBER_H_

#include <cstdint>

namespace kvtier {

// Number of a block of host memory among those that are kept (KeptPrefixes); 0: it is not kept.
enum class KeptNumber : uint32_t {};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_KEPT_NUMBER_H_
