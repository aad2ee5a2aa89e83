// Implements the calls of kvtier.h and kvtier_sequences.h that wait.
#include <algorithm>
#include <utility>
#include <vector>

#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_sequences.h"
#include "client/c/results.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

static_assert(KVTIER_MAX_SEQUENCES == Client::kMaxSequences);

uint8_t NumberOf(Residence residence) {
  switch (residence) {
    case Residence::kAbsent:
      return KVTIER_NOT_HERE;
    case Residence::kGpu:
      return KVTIER_GPU;
    case Residence::kHost:
      return KVTIER_HOST;
    case Residence::kDisk:
      return KVTIER_DISK;
    case Residence::kPerhaps:
      break;
  }
  return KVTIER_PERHAPS;
}

absl::StatusOr<std::vector<OnboardedBlocks>> Onboard(kvtier_client* client,
                                                     const CallArguments& arguments) {
  KVT_ASSIGN_OR_RETURN(const CallRequest request, CallRequest::From(arguments));
  return client->client->Onboard(request.sequences(), request.onboard());
}

int64_t Reserve(kvtier_client* client, const CallArguments& arguments,
                kvtier_put* (*new_put)(ReservedBlocks), kvtier_put** put) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || put == nullptr) return Fail(KVTIER_INVALID, "client or put is NULL");
    *put = nullptr;
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    auto blocks = client->client->Reserve(request->sequences(), request->reserve());
    if (!blocks.ok()) return Fail(blocks.status());
    const auto reserved = static_cast<int64_t>(blocks->reserved());
    *put = new_put(*std::move(blocks));
    return reserved;
  });
}

}  // namespace
}  // namespace kvtier::c

using namespace kvtier;     // NOLINT(google-build-using-namespace): this is its C face.
using namespace kvtier::c;  // NOLINT(google-build-using-namespace)

extern "C" {

int kvtier_residences(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                      size_t count, uint8_t* residences) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    if (residences == nullptr && count > 0) return Fail(KVTIER_INVALID, "residences is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    std::vector<Residence> said(count);
    const absl::Status status = client->client->Residences(SpaceHandle{space}, *engine_keys, said);
    if (!status.ok()) return Fail(status);
    std::transform(said.begin(), said.end(), residences, NumberOf);
    return KVTIER_OK;
  });
}

int kvtier_match_group(kvtier_client* client, const kvtier_space* spaces, size_t space_count,
                       const kvtier_bytes* keys, size_t count, uint32_t flags, int32_t timeout_ms,
                       kvtier_matched* matched) {
  return Guarded([&]() -> int {
    if (client == nullptr || matched == nullptr || (spaces == nullptr && space_count > 0)) {
      return Fail(KVTIER_INVALID, "client, spaces or matched is NULL");
    }
    const kvtier_sequence run = RunOf(0, keys, count);
    const auto request = CallRequest::From({Only(run), KVTIER_HOST, flags, timeout_ms});
    if (!request.ok()) return Fail(request.status());
    std::vector<SpaceHandle> handles;
    handles.reserve(space_count);
    for (size_t i = 0; i < space_count; ++i) handles.push_back(SpaceHandle{spaces[i]});
    const auto common =
        client->client->MatchGroup(handles, request->sequences()[0].keys, request->match());
    if (!common.ok()) return Fail(common.status());
    FillMatched({.blocks = common->blocks,
                 .local_blocks = common->local_blocks,
                 .tiers = {common->tiers.begin(), common->tiers.end()}},
                count, matched);
    return KVTIER_OK;
  });
}

int64_t kvtier_resident_run(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                            size_t count) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const auto resident = client->client->ResidentRun(SpaceHandle{space}, *engine_keys);
    if (!resident.ok()) return Fail(resident.status());
    return static_cast<int64_t>(*resident);
  });
}

int64_t kvtier_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                     size_t count, uint32_t flags, int32_t timeout_ms, uint64_t* local_blocks) {
  const kvtier_sequence run = RunOf(space, keys, count);
  kvtier_matched matched{};
  const int code = kvtier_match_sequences(client, &run, 1, flags, timeout_ms, &matched);
  if (code != KVTIER_OK) return code;
  if (local_blocks != nullptr) *local_blocks = matched.local_blocks;
  return static_cast<int64_t>(matched.blocks);
}

int kvtier_match_sequences(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                           uint32_t flags, int32_t timeout_ms, kvtier_matched* matched) {
  return Guarded([&]() -> int {
    if (client == nullptr || matched == nullptr) {
      return Fail(KVTIER_INVALID, "client or matched is NULL");
    }
    const auto request = CallRequest::From(
        {.sequences = {sequences, count}, .flags = flags, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto all = client->client->Match(request->sequences(), request->match());
    if (!all.ok()) return Fail(all.status());
    for (size_t i = 0; i < count; ++i) FillMatched((*all)[i], sequences[i].count, &matched[i]);
    return KVTIER_OK;
  });
}

int64_t kvtier_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                       size_t count, int target, uint32_t flags, int32_t timeout_ms,
                       kvtier_hit** hit) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || hit == nullptr) return Fail(KVTIER_INVALID, "client or hit is NULL");
    *hit = nullptr;
    const kvtier_sequence run = RunOf(space, keys, count);
    auto all = Onboard(client, {Only(run), target, flags, timeout_ms});
    if (!all.ok()) return Fail(all.status());
    const auto size = static_cast<int64_t>((*all)[0].size());
    *hit = NewHit(std::move((*all)[0]));
    return size;
  });
}

int64_t kvtier_advise(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                      int32_t timeout_ms) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request =
        CallRequest::From({.sequences = {sequences, count}, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto advised = client->client->Advise(request->sequences(), request->match().timeout);
    if (!advised.ok()) return Fail(advised.status());
    return static_cast<int64_t>(*advised);
  });
}

int64_t kvtier_delete(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                      int32_t timeout_ms, uint64_t* held) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request =
        CallRequest::From({.sequences = {sequences, count}, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto blocks = client->client->Delete(request->sequences(), request->match().timeout);
    if (!blocks.ok()) return Fail(blocks.status());
    if (!blocks->answered) {
      return Fail(KVTIER_ABSENT, "the agent did not answer in time; try again");
    }
    if (held != nullptr) *held = blocks->held;
    return static_cast<int64_t>(blocks->deleted);
  });
}

int64_t kvtier_onboard_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                 size_t count, int target, uint32_t flags, int32_t timeout_ms,
                                 kvtier_hit** hits) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || hits == nullptr) return Fail(KVTIER_INVALID, "client or hits is NULL");
    std::fill_n(hits, count, nullptr);
    auto all = Onboard(client, {{sequences, count}, target, flags, timeout_ms});
    if (!all.ok()) return Fail(all.status());
    return FillHits(*std::move(all), hits);
  });
}

int64_t kvtier_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                       const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                       kvtier_put** put) {
  const kvtier_sequence run = RunWithParent(parent, RunOf(space, keys, count));
  return Reserve(client, {Only(run), target, 0, timeout_ms}, NewPut, put);
}

int64_t kvtier_reserve_entries(kvtier_client* client, kvtier_space space,
                               const kvtier_bytes* parent, const kvtier_bytes* keys, size_t count,
                               int target, int32_t timeout_ms, kvtier_put** put) {
  const kvtier_sequence run = RunWithParent(parent, RunOf(space, keys, count));
  return Reserve(client, {Only(run), target, 0, timeout_ms}, NewPutOfEntries, put);
}

int64_t kvtier_reserve_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                 size_t count, int target, int32_t timeout_ms, kvtier_put** put) {
  return Reserve(client, {{sequences, count}, target, 0, timeout_ms}, NewPutOfEntries, put);
}

int64_t kvtier_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms) {
  const kvtier_sequence run = RunOf(space, keys, count);
  return kvtier_prefetch_sequences(client, &run, 1, flags, timeout_ms);
}

int64_t kvtier_prefetch_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                  size_t count, uint32_t flags, int32_t timeout_ms) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From(
        {.sequences = {sequences, count}, .flags = flags, .timeout_ms = timeout_ms});
    if (!request.ok()) return Fail(request.status());
    const auto accepted = client->client->Prefetch(request->sequences(), request->match());
    if (!accepted.ok()) return Fail(accepted.status());
    return static_cast<int64_t>(*accepted);
  });
}

}  // extern "C"
