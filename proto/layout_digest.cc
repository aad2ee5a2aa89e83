#include "proto/layout_digest.h"

#include "absl/strings/str_cat.h"

namespace kvtier::wire {

uint64_t LayoutDigest(uint32_t version) {
  // Keep this number as a constant when version 2 comes, and return version 2's beside it.
  return version == 1 ? KVTIER_LAYOUT_DIGEST : 0;
}

std::string LayoutText(uint64_t digest) {
  return absl::StrCat(absl::Hex(digest, absl::kZeroPad16));
}

}  // namespace kvtier::wire
