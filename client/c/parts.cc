// Implements kvtier_parts.h.
#include <cstddef>
#include <utility>
#include <vector>

#include "client/c/call_request.h"
#include "client/c/handles.h"
#include "client/c/kvtier_parts.h"
#include "client/c/results.h"
#include "client/c/submission.h"

namespace kvtier::c {
namespace {

// Returns the callback that queues each part until it is polled.
auto PartsTo(const Submission& by) {
  return [by](OnboardedPart part) {
    by.client->completions.PushPart([tag = by.tag, part = std::move(part)]() mutable {
      kvtier_completion completion{};
      completion.tag = tag;
      completion.op = KVTIER_OP_ONBOARD_PART;
      completion.sequence = static_cast<uint32_t>(part.sequence);
      completion.blocks = static_cast<int64_t>(part.blocks.size());
      completion.hit = NewHit(std::move(part.blocks));
      return completion;
    });
  };
}

int SubmitParts(const Submission& by, const CallArguments& arguments, kvtier_in_parts* ends) {
  return Guarded([&]() -> int {
    if (by.client == nullptr || ends == nullptr) {
      return Fail(KVTIER_INVALID, "client or ends is NULL");
    }
    const auto request = CallRequest::From(arguments);
    if (!request.ok()) return Fail(request.status());
    using Result = std::vector<OnboardedInParts>;
    return Submitted<Result>(
        by,
        [&](auto done) {
          return by.client->client->SubmitOnboardParts(request->sequences(), request->onboard(),
                                                       PartsTo(by), std::move(done));
        },
        [ends](const Result& all, kvtier_completion* completion) {
          for (size_t i = 0; i < all.size(); ++i) {
            completion->blocks += static_cast<int64_t>(all[i].blocks);
            ends[i] = {.blocks = all[i].blocks,
                       .missed = static_cast<int32_t>(all[i].missed),
                       .reserved = 0};
          }
        });
  });
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int kvtier_submit_onboard_parts(kvtier_client* client, const kvtier_sequence* sequences,
                                size_t count, uint32_t flags, int32_t timeout_ms,
                                kvtier_in_parts* ends, uint64_t tag) {
  return kvtier::c::SubmitParts({client, tag, KVTIER_OP_ONBOARD_PARTS},
                                {{sequences, count}, KVTIER_HOST, flags, timeout_ms}, ends);
}

}  // extern "C"
