// KeepLimit says why a node keeps no more blocks for a tenant.
#ifndef KVTIER_CORE_KEEP_LIMIT_H_
#define KVTIER_CORE_KEEP_LIMIT_H_

#include <cstdint>

namespace kvtier {

enum class KeepLimit : uint8_t {
  kNone,            // Nothing was refused.
  kTenantBytes,     // The part of the tenant's host memory that may be kept is used up.
  kTenantBlocks,    // One tenant keeps as many blocks as it may.
  kTenantPrefixes,  // One tenant keeps as many prefixes as it may.
  kNodeBlocks,      // All tenants together keep as many blocks as the node may.
  kNodePrefixes,
};

// Returns "none", "tenant_bytes", "tenant_blocks", "tenant_prefixes", "node_blocks" or
// "node_prefixes".
constexpr const char* KeepLimitName(KeepLimit limit) {
  constexpr const char* kNames[] = {
      "none", "tenant_bytes", "tenant_blocks", "tenant_prefixes", "node_blocks", "node_prefixes"};
  return kNames[static_cast<uint8_t>(limit)];
}

}  // namespace kvtier

#endif  // KVTIER_CORE_KEEP_LIMIT_H_
