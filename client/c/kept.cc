// Implements kvtier_kept.h.
#include <algorithm>

#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_kept.h"

namespace kvtier::c {
namespace {

static_assert(absl::Milliseconds(KVTIER_MIN_TTL_MS) == Client::kMinTtl);
static_assert(absl::Milliseconds(KVTIER_MAX_TTL_MS) == Client::kMaxTtl);
static_assert(KVTIER_KEEP_TENANT_BYTES == static_cast<int>(KeepLimit::kTenantBytes));
static_assert(KVTIER_KEEP_TENANT_BLOCKS == static_cast<int>(KeepLimit::kTenantBlocks));
static_assert(KVTIER_KEEP_TENANT_PREFIXES == static_cast<int>(KeepLimit::kTenantPrefixes));
static_assert(KVTIER_KEEP_NODE_BLOCKS == static_cast<int>(KeepLimit::kNodeBlocks));
static_assert(KVTIER_KEEP_NODE_PREFIXES == static_cast<int>(KeepLimit::kNodePrefixes));

uint64_t MillisOf(absl::Duration left) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(left));
}

int NoAnswer() { return Fail(KVTIER_ABSENT, "the agent did not answer in time; try again"); }

void FillUse(const KeptUse& use, kvtier_kept_use* to) {
  if (to == nullptr) return;
  *to = {.prefixes = use.prefixes, .blocks = use.blocks, .bytes = use.bytes};
}

}  // namespace
}  // namespace kvtier::c

using namespace kvtier;     // NOLINT(google-build-using-namespace): this is its C face.
using namespace kvtier::c;  // NOLINT(google-build-using-namespace)

extern "C" {

int64_t kvtier_keep(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                    uint32_t ttl_ms, int32_t timeout_ms, kvtier_kept* kept, uint64_t* blocks,
                    int* limit) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || kept == nullptr) {
      return Fail(KVTIER_INVALID, "client or kept is NULL");
    }
    *kept = {};
    const auto request =
        CallRequest::From({.sequences = {sequences, count}, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto keeps = client->client->Keep(
        request->sequences(),
        {.ttl = absl::Milliseconds(ttl_ms), .timeout = request->match().timeout});
    if (!keeps.ok()) return Fail(keeps.status());
    if (!keeps->answered) return NoAnswer();
    for (size_t i = 0; i < keeps->sequences.size(); ++i) {
      const uint64_t of_it = keeps->sequences[i].key_indices.size();
      if (blocks != nullptr) blocks[i] = of_it;
      kept->blocks += of_it;
    }
    kept->id = keeps->id;
    kept->ttl_left_ms = MillisOf(keeps->ttl_left);
    if (limit != nullptr) *limit = static_cast<int>(keeps->limit);
    return static_cast<int64_t>(kept->blocks);
  });
}

int64_t kvtier_list_kept(kvtier_client* client, int32_t timeout_ms, kvtier_kept* prefixes,
                         size_t room, kvtier_kept_use* used, kvtier_kept_use* quota) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || (prefixes == nullptr && room > 0)) {
      return Fail(KVTIER_INVALID, "client or prefixes is NULL");
    }
    const auto timeout = TimeoutFrom(timeout_ms);
    if (!timeout.ok()) return Fail(timeout.status());
    const auto list = client->client->ListKept(*timeout);
    if (!list.ok()) return Fail(list.status());
    if (!list->answered) return NoAnswer();
    for (size_t i = 0; i < std::min(room, list->prefixes.size()); ++i) {
      const KeptList::Prefix& prefix = list->prefixes[i];
      prefixes[i] = {.id = prefix.id,
                     .blocks = prefix.blocks,
                     .bytes = prefix.bytes,
                     .ttl_left_ms = MillisOf(prefix.ttl_left)};
    }
    FillUse(list->used, used);
    FillUse(list->quota, quota);
    return static_cast<int64_t>(list->prefixes.size());
  });
}

int64_t kvtier_end_kept(kvtier_client* client, uint64_t id, int32_t timeout_ms) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto timeout = TimeoutFrom(timeout_ms);
    if (!timeout.ok()) return Fail(timeout.status());
    const auto ended = client->client->EndKept(id, *timeout);
    if (!ended.ok()) return Fail(ended.status());
    if (!ended->has_value()) return NoAnswer();
    return static_cast<int64_t>(**ended);
  });
}

int64_t kvtier_drop_prefix(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           int32_t timeout_ms, uint64_t* held, uint32_t* more) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request =
        CallRequest::From({.sequences = {sequences, count}, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto blocks = client->client->DropPrefix(request->sequences(), request->match().timeout);
    if (!blocks.ok()) return Fail(blocks.status());
    if (!blocks->answered) return NoAnswer();
    if (held != nullptr) *held = blocks->held;
    if (more != nullptr) *more = blocks->more ? 1 : 0;
    return static_cast<int64_t>(blocks->deleted);
  });
}

}  // extern "C"
