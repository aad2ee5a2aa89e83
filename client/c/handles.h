// What the opaque handles of kvtier.h are, and how a C function of ours begins and
// ends: nothing thrown leaves it, and what failed is kept for kvtier_last_error().
#ifndef KVTIER_CLIENT_C_HANDLES_H_
#define KVTIER_CLIENT_C_HANDLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/c/kvtier.h"
#include "client/client.h"
#include "client/completion_queue.h"
#include "client/paged_kv.h"
#include "core/block_key.h"

struct kvtier_client {
  // Before the client, whose callbacks push into it until it is destroyed.
  kvtier::CompletionQueue completions;
  std::unique_ptr<kvtier::Client> client;
};

struct kvtier_hit {
  kvtier::OnboardedBlocks blocks;
};

struct kvtier_put {
  kvtier::ReservedBlocks blocks;
};

struct kvtier_kv {
  std::unique_ptr<kvtier::PagedKv> kv;  // Never null.
};

namespace kvtier::c {

// Keeps `text` for kvtier_last_error() and returns `code`.
int Fail(int code, std::string text) noexcept;
// Never KVTIER_OK.
int Fail(const absl::Status& status) noexcept;

// `body()` with what it throws (std::bad_alloc) turned into KVTIER_INTERNAL.
template <typename Body>
auto Guarded(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return Fail(KVTIER_INTERNAL, "out of memory");
  }
}

// The keys of a call. Errors: kInvalidArgument, naming the index.
absl::StatusOr<std::vector<EngineKey>> KeysFrom(const kvtier_bytes* keys, size_t count);
absl::StatusOr<OnboardTarget> TargetFrom(int target);

// 0: the client's default.
inline std::optional<absl::Duration> TimeoutFrom(uint32_t timeout_ms) {
  if (timeout_ms == 0) return std::nullopt;
  return absl::Milliseconds(timeout_ms);
}

// What a reserve is asked for, as it comes and as the client takes it.
struct ReserveArguments {
  const kvtier_bytes* parent;
  const kvtier_bytes* keys;
  size_t count;
  int target;
  uint32_t timeout_ms;
};
struct ReserveRequest {
  std::vector<EngineKey> keys;
  ReserveOptions options;
};
// Errors: kInvalidArgument, naming the argument.
absl::StatusOr<ReserveRequest> ReserveFrom(const ReserveArguments& arguments);

// Null for a miss.
inline kvtier_hit* NewHit(OnboardedBlocks blocks) {
  return blocks.empty() ? nullptr : new kvtier_hit{std::move(blocks)};
}
inline kvtier_put* NewPut(ReservedBlocks blocks) {
  return blocks.reserved() == 0 ? nullptr : new kvtier_put{std::move(blocks)};
}
// Null when nobody answered.
inline kvtier_put* NewPutOfEntries(ReservedBlocks blocks) {
  return blocks.answered() ? new kvtier_put{std::move(blocks)} : nullptr;
}

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_HANDLES_H_
