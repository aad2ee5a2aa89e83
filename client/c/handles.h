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

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/c/completion_queue.h"
#include "client/c/kvtier.h"
#include "client/client.h"
#include "client/paged_kv.h"
#include "core/block_key.h"

namespace kvtier {
class LaneDevices;
}

struct kvtier_client {
  // Before the client, whose callbacks push into it until it is destroyed.
  kvtier::CompletionQueue completions;
  std::unique_ptr<kvtier::Client> client;
  std::shared_ptr<kvtier::LaneDevices> devices;  // That its lanes have open. Never null.
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

// Copies what `text()` returns, as kvtier_agent_error() does, and returns its length. Out of memory
// it is empty.
size_t CopyText(absl::FunctionRef<std::string()> text, char* to, size_t size) noexcept;

// Returns one key, of the argument `name`.
absl::StatusOr<EngineKey> KeyFrom(const kvtier_bytes& key, absl::FunctionRef<std::string()> name);
// Returns the keys of a call. Errors: kInvalidArgument, naming the index behind `owner`: "keys[3]",
// or "a.keys[3]".
absl::StatusOr<std::vector<EngineKey>> KeysFrom(const kvtier_bytes* keys, size_t count,
                                                const std::string& owner = "");

// Returns the timeout of a call; absent: the client's default. Errors: kInvalidArgument, it is
// negative.
absl::StatusOr<std::optional<absl::Duration>> TimeoutFrom(int32_t timeout_ms);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_HANDLES_H_
