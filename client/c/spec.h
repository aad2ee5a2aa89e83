// kvtier_space_spec as our SpaceSpec, and the caller's structs as ours.
#ifndef KVTIER_CLIENT_C_SPEC_H_
#define KVTIER_CLIENT_C_SPEC_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/c/kvtier.h"
#include "core/space.h"

namespace kvtier::c {

inline const char* TextOr(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

// A caller's struct as ours: what an older caller did not have is zero. `min_size` is
// the size in the first version that had the struct.
template <typename Struct>
absl::StatusOr<Struct> CopyIn(const Struct* theirs, size_t min_size, const char* name) {
  if (theirs == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " is NULL"));
  if (theirs->struct_size < min_size) {
    return absl::InvalidArgumentError(absl::StrCat(name, ".struct_size is ", theirs->struct_size,
                                                   "; must be at least ", min_size));
  }
  Struct ours{};
  std::memcpy(&ours, theirs, std::min(theirs->struct_size, sizeof(ours)));
  return ours;
}

// Not validated. Errors: kInvalidArgument, NULL or too small.
absl::StatusOr<SpaceSpec> SpecFrom(const kvtier_space_spec* theirs);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_SPEC_H_
