// kvtier.h: the calls that do not wait, and their completions.
#include <new>
#include <utility>
#include <vector>

#include "client/c/handles.h"

namespace kvtier::c {
namespace {

// `submit(done)` with a place booked for its completion; `done(result)` fills it.
template <typename Result, typename Submit>
int Submitted(kvtier_client* client, CompletedCall::Kind kind, uint64_t tag, Submit submit) {
  if (!client->completions.Book()) return Fail(KVTIER_AGAIN, "too many calls are outstanding");
  const absl::Status status = submit([client, kind, tag](Result result) {
    client->completions.Push({.tag = tag, .kind = kind, .result = std::move(result)});
  });
  if (status.ok()) return KVTIER_OK;
  client->completions.Unbook();
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    return Fail(KVTIER_AGAIN, std::string(status.message()));
  }
  return Fail(status);
}

kvtier_completion CompletionFrom(CompletedCall completion) {
  kvtier_completion out{};
  out.tag = completion.tag;
  out.op = static_cast<int32_t>(completion.kind);
  if (auto* const count = std::get_if<size_t>(&completion.result)) {
    out.blocks = static_cast<int64_t>(*count);
  } else if (auto* const matched = std::get_if<MatchedPrefix>(&completion.result)) {
    out.blocks = static_cast<int64_t>(matched->blocks);
    out.local_blocks = matched->local_blocks;
  } else if (auto* const hit = std::get_if<OnboardedBlocks>(&completion.result)) {
    out.blocks = static_cast<int64_t>(hit->size());
    out.hit = NewHit(std::move(*hit));
  } else if (auto* const put = std::get_if<ReservedBlocks>(&completion.result)) {
    out.blocks = static_cast<int64_t>(put->reserved());
    out.put = completion.kind == CompletedCall::Kind::kReserve ? NewPut(std::move(*put))
                                                               : NewPutOfEntries(std::move(*put));
  }
  return out;
}

static_assert(static_cast<int>(CompletedCall::Kind::kMatch) == KVTIER_OP_MATCH);
static_assert(static_cast<int>(CompletedCall::Kind::kOnboard) == KVTIER_OP_ONBOARD);
static_assert(static_cast<int>(CompletedCall::Kind::kReserve) == KVTIER_OP_RESERVE);
static_assert(static_cast<int>(CompletedCall::Kind::kCommit) == KVTIER_OP_COMMIT);
static_assert(static_cast<int>(CompletedCall::Kind::kPrefetch) == KVTIER_OP_PREFETCH);
static_assert(static_cast<int>(CompletedCall::Kind::kReserveEntries) == KVTIER_OP_RESERVE_ENTRIES);

int SubmitReserve(kvtier_client* client, kvtier_space space, const ReserveArguments& arguments,
                  CompletedCall::Kind kind, uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto asked = ReserveFrom(arguments);
    if (!asked.ok()) return Fail(asked.status());
    return Submitted<ReservedBlocks>(client, kind, tag, [&](auto done) {
      return client->client->SubmitReserve(SpaceHandle{space}, asked->keys, asked->options,
                                           std::move(done));
    });
  });
}

}  // namespace
int SubmitCommit(kvtier_client* client, kvtier_put* put, const kvtier::CommitOptions& options,
                 uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr || put == nullptr) return Fail(KVTIER_INVALID, "client or put is NULL");
    const int submitted =
        Submitted<size_t>(client, CompletedCall::Kind::kCommit, tag, [&](auto done) {
          return client->client->SubmitCommit(std::move(put->blocks), std::move(done), options);
        });
    if (submitted == KVTIER_OK) delete put;
    return submitted;
  });
}

}  // namespace kvtier::c

using namespace kvtier;     // NOLINT(google-build-using-namespace): this is its C face.
using namespace kvtier::c;  // NOLINT(google-build-using-namespace)

extern "C" {

int kvtier_submit_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, uint32_t timeout_ms, uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const MatchOptions options{.timeout = TimeoutFrom(timeout_ms),
                               .local_only = (flags & KVTIER_LOCAL_ONLY) != 0};
    return Submitted<MatchedPrefix>(client, CompletedCall::Kind::kMatch, tag, [&](auto done) {
      return client->client->SubmitMatch(SpaceHandle{space}, *engine_keys, options,
                                         std::move(done));
    });
  });
}

int kvtier_submit_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                          size_t count, int target, uint32_t flags, uint32_t timeout_ms,
                          uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const auto to = TargetFrom(target);
    if (!to.ok()) return Fail(to.status());
    const OnboardOptions options{.timeout = TimeoutFrom(timeout_ms),
                                 .target = *to,
                                 .local_only = (flags & KVTIER_LOCAL_ONLY) != 0};
    return Submitted<OnboardedBlocks>(client, CompletedCall::Kind::kOnboard, tag, [&](auto done) {
      return client->client->SubmitOnboard(SpaceHandle{space}, *engine_keys, options,
                                           std::move(done));
    });
  });
}

int kvtier_submit_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                          const kvtier_bytes* keys, size_t count, int target, uint32_t timeout_ms,
                          uint64_t tag) {
  return SubmitReserve(client, space, {parent, keys, count, target, timeout_ms},
                       CompletedCall::Kind::kReserve, tag);
}

int kvtier_submit_reserve_entries(kvtier_client* client, kvtier_space space,
                                  const kvtier_bytes* parent, const kvtier_bytes* keys,
                                  size_t count, int target, uint32_t timeout_ms, uint64_t tag) {
  return SubmitReserve(client, space, {parent, keys, count, target, timeout_ms},
                       CompletedCall::Kind::kReserveEntries, tag);
}

int kvtier_submit_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                           size_t count, uint32_t flags, uint32_t timeout_ms, uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto engine_keys = KeysFrom(keys, count);
    if (!engine_keys.ok()) return Fail(engine_keys.status());
    const MatchOptions options{.timeout = TimeoutFrom(timeout_ms),
                               .local_only = (flags & KVTIER_LOCAL_ONLY) != 0};
    return Submitted<size_t>(client, CompletedCall::Kind::kPrefetch, tag, [&](auto done) {
      return client->client->SubmitPrefetch(SpaceHandle{space}, *engine_keys, options,
                                            std::move(done));
    });
  });
}

int kvtier_submit_commit(kvtier_client* client, kvtier_put* put, uint64_t tag) {
  return kvtier_submit_commit_step(client, put, 0, tag);
}

int kvtier_submit_commit_step(kvtier_client* client, kvtier_put* put, uint64_t step, uint64_t tag) {
  return SubmitCommit(client, put, {.step = step}, tag);
}

int kvtier_submit_commit_durable(kvtier_client* client, kvtier_put* put, uint64_t step,
                                 uint32_t timeout_ms, uint64_t tag) {
  return SubmitCommit(client, put,
                      {.step = step, .durable = true, .timeout = TimeoutFrom(timeout_ms)}, tag);
}

int kvtier_event_fd(kvtier_client* client) {
  if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
  return client->completions.event_fd();
}

int64_t kvtier_poll(kvtier_client* client, kvtier_completion* completions, size_t count) {
  return Guarded([&]() -> int64_t {
    if (client == nullptr || (completions == nullptr && count > 0)) {
      return Fail(KVTIER_INVALID, "client or completions is NULL");
    }
    std::vector<CompletedCall> ended = client->completions.Poll(count);
    for (size_t i = 0; i < ended.size(); ++i) {
      completions[i] = CompletionFrom(std::move(ended[i]));
    }
    return static_cast<int64_t>(ended.size());
  });
}

}  // extern "C"
