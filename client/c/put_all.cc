// Implements kvtier_put_all.h.
#include "client/put_all.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "client/c/handles.h"
#include "client/c/kvtier_put_all.h"
#include "client/c/pieces.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

int GetLimits(kvtier_client* client, kvtier_space space, kvtier_limits* limits,
              std::span<char> why_not) {
  if (client == nullptr || limits == nullptr) {
    return Fail(KVTIER_INVALID, "client or limits is NULL");
  }
  if (limits->struct_size < sizeof(kvtier_limits)) {
    return Fail(KVTIER_INVALID, "limits.struct_size is too small; must be the size of the struct");
  }
  const absl::StatusOr<SpaceLimits> said = client->client->Limits(SpaceHandle{space});
  if (!said.ok()) return Fail(said.status());
  *limits = {.struct_size = limits->struct_size,
             .usable = said->usable ? 1U : 0U,
             .reserved = 0,
             .slab_bytes = said->slab_bytes,
             .slot_bytes = said->slot_bytes,
             .host_slots = said->host_slots,
             .staging_slots = said->staging_slots};
  if (why_not.empty()) return KVTIER_OK;
  const size_t length = std::min(said->why_not.size(), why_not.size() - 1);
  std::memcpy(why_not.data(), said->why_not.data(), length);
  why_not[length] = '\0';
  return KVTIER_OK;
}

// The caller's function that names the pieces of a block, and its argument.
struct Source {
  kvtier_pieces_of pieces_of = nullptr;
  void* user = nullptr;
};

absl::Status PutAll(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                    std::span<const EngineKey> keys, const Source& source, int32_t timeout_ms,
                    kvtier_put_counts* counts) {
  PutAllOptions options;
  KVT_ASSIGN_OR_RETURN(const std::optional<absl::Duration> timeout, TimeoutFrom(timeout_ms));
  options.timeout = timeout.value_or(options.timeout);
  if (parent != nullptr) {
    KVT_ASSIGN_OR_RETURN(options.parent, KeyFrom(*parent, [] { return std::string("parent"); }));
  }
  absl::Status named;  // Error of the first block whose pieces are not valid.
  std::vector<ConstPiece> pieces;
  const absl::StatusOr<PutCounts> put = kvtier::PutAll(
      client->client.get(), SpaceHandle{space}, keys,
      [&](size_t i) -> std::span<const ConstPiece> {
        size_t count = 0;
        const kvtier_bytes* const theirs = source.pieces_of(source.user, i, &count);
        absl::StatusOr<std::vector<ConstPiece>> of_block = PiecesFrom<ConstPiece>(theirs, count);
        if (named.ok() && !of_block.ok()) named = of_block.status();
        pieces = of_block.ok() ? *std::move(of_block) : std::vector<ConstPiece>();
        return pieces;
      },
      options);
  KVT_RETURN_IF_ERROR(named);
  KVT_RETURN_IF_ERROR(put.status());
  *counts = {.stored = put->stored, .present = put->present, .missed = put->missed};
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int kvtier_get_limits(kvtier_client* client, kvtier_space space, kvtier_limits* limits,
                      char* why_not, size_t size) {
  return kvtier::c::Guarded([&]() -> int {
    const size_t room = why_not == nullptr ? 0 : size;
    return kvtier::c::GetLimits(client, space, limits, {why_not, room});
  });
}

int kvtier_put_all(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                   const kvtier_bytes* keys, size_t count, kvtier_pieces_of pieces_of, void* user,
                   int32_t timeout_ms, kvtier_put_counts* counts) {
  return kvtier::c::Guarded([&]() -> int {
    if (client == nullptr || pieces_of == nullptr || counts == nullptr) {
      return kvtier::c::Fail(KVTIER_INVALID, "client, pieces_of or counts is NULL");
    }
    const auto engine_keys = kvtier::c::KeysFrom(keys, count);
    if (!engine_keys.ok()) return kvtier::c::Fail(engine_keys.status());
    const absl::Status status = kvtier::c::PutAll(client, space, parent, *engine_keys,
                                                  {pieces_of, user}, timeout_ms, counts);
    return status.ok() ? KVTIER_OK : kvtier::c::Fail(status);
  });
}

}  // extern "C"
