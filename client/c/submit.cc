// Implements the calls of kvtier.h and kvtier_sequences.h that do not wait, and their completions.
#include <span>
#include <utility>
#include <vector>

#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_sequences.h"
#include "client/c/results.h"
#include "client/c/submission.h"

namespace kvtier::c {
namespace {

void ReadCount(size_t count, kvtier_completion* completion) {
  completion->blocks = static_cast<int64_t>(count);
}

// Submits a match. `matched` is null, or the caller's array, with one entry for each sequence.
int SubmitMatch(const Submission& by, const CallArguments& arguments, kvtier_matched* matched) {
  return Guarded([&]() -> int {
    if (by.client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    std::vector<size_t> keys;  // Number of keys of each sequence.
    for (const KeySequence& sequence : request->sequences()) keys.push_back(sequence.keys.size());
    using Result = std::vector<MatchedSequence>;
    return Submitted<Result>(
        by,
        [&](auto done) {
          return by.client->client->SubmitMatch(request->sequences(), request->match(),
                                                std::move(done));
        },
        [matched, keys](const Result& all, kvtier_completion* completion) {
          for (size_t i = 0; i < all.size(); ++i) {
            completion->blocks += static_cast<int64_t>(all[i].blocks);
            completion->local_blocks += all[i].local_blocks;
            if (matched != nullptr) FillMatched(all[i], keys[i], &matched[i]);
          }
        });
  });
}

// Submits an onboard. `hits` is the caller's array, with one entry for each sequence; null: the
// completion has the only hit.
int SubmitOnboard(const Submission& by, const CallArguments& arguments, kvtier_hit** hits) {
  return Guarded([&]() -> int {
    if (by.client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    using Result = std::vector<OnboardedBlocks>;
    return Submitted<Result>(
        by,
        [&](auto done) {
          return by.client->client->SubmitOnboard(request->sequences(), request->onboard(),
                                                  std::move(done));
        },
        [hits](Result all, kvtier_completion* completion) {
          if (hits != nullptr) {
            completion->blocks = FillHits(std::move(all), hits);
            return;
          }
          completion->blocks = static_cast<int64_t>(all[0].size());
          completion->hit = NewHit(std::move(all[0]));
        });
  });
}

int SubmitReserve(const Submission& by, const CallArguments& arguments,
                  kvtier_put* (*new_put)(ReservedBlocks)) {
  return Guarded([&]() -> int {
    if (by.client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    return Submitted<ReservedBlocks>(
        by,
        [&](auto done) {
          return by.client->client->SubmitReserve(request->sequences(), request->reserve(),
                                                  std::move(done));
        },
        [new_put](ReservedBlocks blocks, kvtier_completion* completion) {
          completion->blocks = static_cast<int64_t>(blocks.reserved());
          completion->put = new_put(std::move(blocks));
        });
  });
}

int SubmitCommit(kvtier_client* client, kvtier_put* put, const CommitOptions& options,
                 uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr || put == nullptr) return Fail(KVTIER_INVALID, "client or put is NULL");
    const int submitted = Submitted<size_t>(
        {client, tag, KVTIER_OP_COMMIT},
        [&](auto done) {
          return client->client->SubmitCommit(std::move(put->blocks), std::move(done), options);
        },
        ReadCount);
    if (submitted == KVTIER_OK) delete put;
    return submitted;
  });
}

// Submits a deletion. If no agent answers, `blocks` of its completion is KVTIER_ABSENT.
int SubmitDelete(const Submission& by, const CallArguments& arguments, uint64_t* held) {
  return Guarded([&]() -> int {
    if (by.client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    return Submitted<DeletedBlocks>(
        by,
        [&](auto done) {
          return by.client->client->SubmitDelete(request->sequences(), request->match().timeout,
                                                 std::move(done));
        },
        [held](const DeletedBlocks& deleted, kvtier_completion* completion) {
          completion->blocks =
              deleted.answered ? static_cast<int64_t>(deleted.deleted) : int64_t{KVTIER_ABSENT};
          if (held != nullptr) *held = deleted.held;
        });
  });
}

}  // namespace
}  // namespace kvtier::c

using namespace kvtier;     // NOLINT(google-build-using-namespace): this is its C face.
using namespace kvtier::c;  // NOLINT(google-build-using-namespace)

extern "C" {

int kvtier_submit_match(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                        size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag) {
  const kvtier_sequence run = RunOf(space, keys, count);
  return SubmitMatch({client, tag, KVTIER_OP_MATCH}, {Only(run), KVTIER_HOST, flags, timeout_ms},
                     nullptr);
}

int kvtier_submit_match_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                  size_t count, uint32_t flags, int32_t timeout_ms,
                                  kvtier_matched* matched, uint64_t tag) {
  if (matched == nullptr) return Fail(KVTIER_INVALID, "matched is NULL");
  return SubmitMatch({client, tag, KVTIER_OP_MATCH},
                     {{sequences, count}, KVTIER_HOST, flags, timeout_ms}, matched);
}

int kvtier_submit_onboard(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                          size_t count, int target, uint32_t flags, int32_t timeout_ms,
                          uint64_t tag) {
  const kvtier_sequence run = RunOf(space, keys, count);
  return SubmitOnboard({client, tag, KVTIER_OP_ONBOARD}, {Only(run), target, flags, timeout_ms},
                       nullptr);
}

int kvtier_submit_onboard_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                    size_t count, int target, uint32_t flags, int32_t timeout_ms,
                                    kvtier_hit** hits, uint64_t tag) {
  if (hits == nullptr) return Fail(KVTIER_INVALID, "hits is NULL");
  return SubmitOnboard({client, tag, KVTIER_OP_ONBOARD},
                       {{sequences, count}, target, flags, timeout_ms}, hits);
}

int kvtier_submit_reserve(kvtier_client* client, kvtier_space space, const kvtier_bytes* parent,
                          const kvtier_bytes* keys, size_t count, int target, int32_t timeout_ms,
                          uint64_t tag) {
  const kvtier_sequence run = RunWithParent(parent, RunOf(space, keys, count));
  return SubmitReserve({client, tag, KVTIER_OP_RESERVE}, {Only(run), target, 0, timeout_ms},
                       NewPut);
}

int kvtier_submit_reserve_entries(kvtier_client* client, kvtier_space space,
                                  const kvtier_bytes* parent, const kvtier_bytes* keys,
                                  size_t count, int target, int32_t timeout_ms, uint64_t tag) {
  kvtier_sequence run = RunWithParent(parent, RunOf(space, keys, count));
  return kvtier_submit_reserve_sequences(client, &run, 1, target, timeout_ms, tag);
}

int kvtier_submit_reserve_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                    size_t count, int target, int32_t timeout_ms, uint64_t tag) {
  return SubmitReserve({client, tag, KVTIER_OP_RESERVE_ENTRIES},
                       {{sequences, count}, target, 0, timeout_ms}, NewPutOfEntries);
}

int kvtier_submit_prefetch(kvtier_client* client, kvtier_space space, const kvtier_bytes* keys,
                           size_t count, uint32_t flags, int32_t timeout_ms, uint64_t tag) {
  const kvtier_sequence run = RunOf(space, keys, count);
  return kvtier_submit_prefetch_sequences(client, &run, 1, flags, timeout_ms, tag);
}

int kvtier_submit_prefetch_sequences(kvtier_client* client, const kvtier_sequence* sequences,
                                     size_t count, uint32_t flags, int32_t timeout_ms,
                                     uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From({{sequences, count}, KVTIER_HOST, flags, timeout_ms});
    if (!request.ok()) return Fail(request.status());
    return Submitted<size_t>(
        {client, tag, KVTIER_OP_PREFETCH},
        [&](auto done) {
          return client->client->SubmitPrefetch(request->sequences(), request->match(),
                                                std::move(done));
        },
        ReadCount);
  });
}

int kvtier_submit_advise(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                         int32_t timeout_ms, uint64_t tag) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto request = CallRequest::From({{sequences, count}, KVTIER_HOST, 0, timeout_ms});
    if (!request.ok()) return Fail(request.status());
    return Submitted<size_t>(
        {client, tag, KVTIER_OP_ADVISE},
        [&](auto done) {
          return client->client->SubmitAdvise(request->sequences(), request->match().timeout,
                                              std::move(done));
        },
        ReadCount);
  });
}

int kvtier_submit_delete(kvtier_client* client, const kvtier_sequence* sequences, size_t count,
                         int32_t timeout_ms, uint64_t* held, uint64_t tag) {
  return SubmitDelete({client, tag, KVTIER_OP_DELETE},
                      {{sequences, count}, KVTIER_HOST, 0, timeout_ms}, held);
}

int kvtier_submit_commit(kvtier_client* client, kvtier_put* put, uint64_t tag) {
  return kvtier_submit_commit_step(client, put, 0, tag);
}

int kvtier_submit_commit_step(kvtier_client* client, kvtier_put* put, uint64_t step, uint64_t tag) {
  return SubmitCommit(client, put, {.step = step}, tag);
}

int kvtier_submit_commit_durable(kvtier_client* client, kvtier_put* put, uint64_t step,
                                 int32_t timeout_ms, uint64_t tag) {
  const auto timeout = TimeoutFrom(timeout_ms);
  if (!timeout.ok()) return Fail(timeout.status());
  return SubmitCommit(client, put, {.step = step, .durable = true, .timeout = *timeout}, tag);
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
    for (size_t i = 0; i < ended.size(); ++i) completions[i] = ended[i]();
    return static_cast<int64_t>(ended.size());
  });
}

}  // extern "C"
