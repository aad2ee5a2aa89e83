// TenantTag stands for a block's tenant where the name would be too long: in each row of a disk's
// manifest and in each shape of a disk's index.
#ifndef KVTIER_CORE_TENANT_TAG_H_
#define KVTIER_CORE_TENANT_TAG_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace kvtier {

enum class TenantTag : uint64_t {};

// Returns the first 64 bits of SHA-256 over a domain tag and the tenant's name. It depends on the
// name alone, so that a tenant whose secret is replaced keeps its tag.
TenantTag TenantTagOf(absl::string_view name);

}  // namespace kvtier

#endif  // KVTIER_CORE_TENANT_TAG_H_
