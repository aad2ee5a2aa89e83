// Defines how a manifest entry, a segment's generation and a tenant's salt (tenant_salt.h) are
// stored: keys that sort, and values that have their own version and checksum. Pure; every durable
// form of Manifest uses it.
#ifndef KVTIER_TIER_DISK_MANIFEST_MANIFEST_VALUE_H_
#define KVTIER_TIER_DISK_MANIFEST_MANIFEST_VALUE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tier_disk/manifest/manifest.h"

namespace kvtier {

inline constexpr uint8_t kManifestValueVersion = 1;

std::string BlockRowKey(const BlockKey& key);
std::string GenerationRowKey(SegmentId segment);

std::string EncodeEntry(const DiskEntry& entry);  // Returns the row's value.
std::string EncodeGeneration(const ManifestBatch::Generation& generation);

// Adds one row to the image. Errors: kDataLoss, the row is invalid (key form, version, size,
// checksum over key and value).
absl::Status DecodeRow(absl::string_view row_key, absl::string_view value, ManifestImage* image);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_MANIFEST_MANIFEST_VALUE_H_
