// SpecFrom() turns a kvtier_space_spec into a SpaceSpec; CopyIn() reads a struct of the caller's,
// whose header may be older.
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

// Returns a copy of a caller's struct; fields that an older caller does not have are zero.
// `min_size` is the size in the first version that had the struct. Errors: kInvalidArgument, it is
// NULL or smaller.
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

// Returns the spec, not validated. Errors: kInvalidArgument, `theirs` is NULL or too small.
absl::StatusOr<SpaceSpec> SpecFrom(const kvtier_space_spec* theirs);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_SPEC_H_
