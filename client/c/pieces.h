// PiecesFrom() converts the pieces of a block that a C program passed.
#ifndef KVTIER_CLIENT_C_PIECES_H_
#define KVTIER_CLIENT_C_PIECES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/copy_sum.h"

namespace kvtier::c {

// Returns the pieces of a call as spans. Errors: kInvalidArgument, naming the argument that is
// NULL.
template <typename Span, typename Theirs>
absl::StatusOr<std::vector<Span>> PiecesFrom(const Theirs* pieces, size_t count) {
  if (pieces == nullptr && count > 0) return absl::InvalidArgumentError("pieces is NULL");
  std::vector<Span> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].data == nullptr && pieces[i].size > 0) {
      return absl::InvalidArgumentError(absl::StrCat("pieces[", i, "].data is NULL"));
    }
    out.push_back(Span(static_cast<typename Span::pointer>(pieces[i].data), pieces[i].size));
  }
  return out;
}

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_PIECES_H_
