// kvtier.h: the calls that wait.
#include <algorithm>
#include <utility>
#include <vector>

#include "client/c/handles.h"

namespace kvtier::c {
namespace {

MatchOptions MatchOptionsFrom(uint32_t flags, uint32_t timeout_ms) {
  return {.timeout = TimeoutFrom(timeout_ms), .local_only = (flags & KVTIER_LOCAL_ONLY) != 0};
}

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

int64_t Reserve(kvtier_client* client, kvtier_space space, const ReserveArguments& arguments,
                kvtier_put* (*new_put)(ReservedBlocks), kvtier_put** put) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || put == nullptr) return Fail(KVTIER_INVALID, "client or put is NULL");
    *put = nullptr;
    const auto asked = ReserveFrom(arguments);
    if (!asked.ok()) return Fail(asked.status());
    auto blocks = client->client->Reserve(SpaceHandle{space}, asked->keys, asked->options);
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
                     size_t count, uint32_t flags, uint32_t timeout_ms, uint64_t* local_blocks) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const auto matched = client->client->Match(SpaceHandle{space}, *engine_keys,
                                               MatchOptionsFrom(flags, timeout_ms));
    if (!matched.ok()) return Fail(matched.status());
    if (local_blocks != nullptr) *local_blocks = matched->local_blocks;
    return static_cast<int64_t>(matched->blocks);
  });
}

int64_t kvtier_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                       size_t count, int target, uint32_t flags, uint32_t timeout_ms,
                       kvtier_hit** hit) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || hit == nullptr) return Fail(KVTIER_INVALID, "client or hit is NULL");
    *hit = nullptr;
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const auto to = TargetFrom(target);
    if (!to.ok()) return Fail(to.status());
    auto blocks = client->client->Onboard(SpaceHandle{space}, *engine_keys,
                                          {.timeout = TimeoutFrom(timeout_ms),
                                           .target = *to,
                                           .local_only = (flags & KVTIER_LOCAL_ONLY) != 0});
    if (!blocks.ok()) return Fail(blocks.status());
    const auto size = static_cast<int64_t>(blocks->size());
    *hit = NewHit(*std::move(blocks));
    return size;
  });
}

int64_t kvtier_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                       const kvtier_bytes* keys, size_t count, int target, uint32_t timeout_ms,
                       kvtier_put** put) {
  return Reserve(client, space, {parent, keys, count, target, timeout_ms}, NewPut, put);
}

int64_t kvtier_reserve_entries(kvtier_client* client, kvtier_space space,
                               const kvtier_bytes* parent, const kvtier_bytes* keys, size_t count,
                               int target, uint32_t timeout_ms, kvtier_put** put) {
  return Reserve(client, space, {parent, keys, count, target, timeout_ms}, NewPutOfEntries, put);
}

int64_t kvtier_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, uint32_t timeout_ms) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const auto accepted = client->client->Prefetch(SpaceHandle{space}, *engine_keys,
                                                   MatchOptionsFrom(flags, timeout_ms));
    if (!accepted.ok()) return Fail(accepted.status());
    return static_cast<int64_t>(*accepted);
  });
}

}  // extern "C"
