// Implements kvtier_copy.h.
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "client/c/kvtier_copy.h"
#include "client/c/pieces.h"
#include "core/copy_sum.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

absl::Status CopyIn(kvtier_put* put, size_t index, const kvtier_bytes* pieces, size_t count) {
  if (put == nullptr || index >= put->blocks.size()) {
    return absl::InvalidArgumentError("put is NULL, or index is past the put");
  }
  KVT_ASSIGN_OR_RETURN(const std::vector<ConstPiece> from, PiecesFrom<ConstPiece>(pieces, count));
  return put->blocks.CopyIn(index, from);
}

absl::Status CopyOut(const kvtier_hit* hit, size_t index, const kvtier_room* pieces, size_t count) {
  if (hit == nullptr || index >= hit->blocks.size()) {
    return absl::InvalidArgumentError("hit is NULL, or index is past the hit");
  }
  KVT_ASSIGN_OR_RETURN(const std::vector<Piece> to, PiecesFrom<Piece>(pieces, count));
  return hit->blocks.CopyOut(index, to);
}

absl::Status Prove(const kvtier_hit* hit, size_t index) {
  if (hit == nullptr || index >= hit->blocks.size()) {
    return absl::InvalidArgumentError("hit is NULL, or index is past the hit");
  }
  return hit->blocks.Prove(index);
}

int FailCopy(const absl::Status& status) {
  if (status.ok()) return KVTIER_OK;
  const std::string text(status.message());
  if (status.code() == absl::StatusCode::kDataLoss) return Fail(KVTIER_DAMAGED, text);
  if (status.code() == absl::StatusCode::kFailedPrecondition) return Fail(KVTIER_ENDED, text);
  return Fail(status);
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int kvtier_copy_in(kvtier_put* put, size_t index, const kvtier_bytes* pieces, size_t count) {
  return kvtier::c::Guarded(
      [&] { return kvtier::c::FailCopy(kvtier::c::CopyIn(put, index, pieces, count)); });
}

int kvtier_copy_out(const kvtier_hit* hit, size_t index, const kvtier_room* pieces, size_t count) {
  return kvtier::c::Guarded(
      [&] { return kvtier::c::FailCopy(kvtier::c::CopyOut(hit, index, pieces, count)); });
}

int kvtier_prove(const kvtier_hit* hit, size_t index) {
  return kvtier::c::Guarded([&] { return kvtier::c::FailCopy(kvtier::c::Prove(hit, index)); });
}

}  // extern "C"
