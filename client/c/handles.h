// Handles are the structs behind the opaque handles of kvtier.h. The functions here begin and end a
// C function of the library: no exception leaves it, and an error's text is kept for
// kvtier_last_error().
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
  // Declared before the client, whose callbacks push into it until the client is destroyed.
  kvtier::CompletionQueue completions;
  std::unique_ptr<kvtier::Client> client;
  std::shared_ptr<kvtier::LaneDevices> devices;  // Devices that its lanes have open. Never null.
};

struct kvtier_hit {
  kvtier::OnboardedBlocks blocks;
};

struct kvtier_put {
  kvtier::ReservedBlocks blocks;
};

struct kvtier_kv {
  std::unique_ptr<kvtier::PagedKv> kv;  // Sequences in the slots; never null.
};

namespace kvtier::c {

// Keeps `text` for kvtier_last_error() and returns `code`.
int Fail(int code, std::string text) noexcept;
// Keeps the message for kvtier_last_error() and returns the code of `status`, never KVTIER_OK.
int Fail(const absl::Status& status) noexcept;

// Returns `body()`, or KVTIER_INTERNAL if it throws (std::bad_alloc).
template <typename Body>
auto Guarded(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return Fail(KVTIER_INTERNAL, "out of memory");
  }
}

// Copies the result of `text()`, as kvtier_agent_error() does, and returns its length. The text is
// empty if memory runs out.
size_t CopyText(absl::FunctionRef<std::string()> text, char* to, size_t size) noexcept;

// Returns the key of the argument that `name()` names.
absl::StatusOr<EngineKey> KeyFrom(const kvtier_bytes& key, absl::FunctionRef<std::string()> name);
// Returns the keys of a call. Errors: kInvalidArgument, naming `owner` and the index: "keys[3]", or
// "a.keys[3]".
absl::StatusOr<std::vector<EngineKey>> KeysFrom(const kvtier_bytes* keys, size_t count,
                                                const std::string& owner = "");

// Returns the timeout of a call; absent: the client's default. Errors: kInvalidArgument, it is
// negative.
absl::StatusOr<std::optional<absl::Duration>> TimeoutFrom(int32_t timeout_ms);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_HANDLES_H_
