#include "client/c/handles.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

// The text has a fixed size, because keeping an error must not fail.
thread_local char last_error[512] = "";

}  // namespace

absl::StatusOr<EngineKey> KeyFrom(const kvtier_bytes& key, absl::FunctionRef<std::string()> name) {
  if (key.data == nullptr) return absl::InvalidArgumentError(absl::StrCat(name(), ".data is NULL"));
  absl::StatusOr<EngineKey> engine_key =
      EngineKey::FromBytes({static_cast<const char*>(key.data), key.size});
  if (engine_key.ok()) return engine_key;
  return absl::InvalidArgumentError(absl::StrCat(name(), ": ", engine_key.status().message()));
}

size_t CopyText(absl::FunctionRef<std::string()> text, char* to, size_t size) noexcept {
  if (size > 0 && to != nullptr) to[0] = '\0';
  try {
    const std::string all = text();
    if (size > 0 && to != nullptr) {
      const size_t copied = std::min(all.size(), size - 1);
      std::memcpy(to, all.data(), copied);
      to[copied] = '\0';
    }
    return all.size();
  } catch (...) {
    return 0;
  }
}

int Fail(int code, std::string text) noexcept {
  const size_t size = std::min(text.size(), sizeof(last_error) - 1);
  std::memcpy(last_error, text.data(), size);
  last_error[size] = '\0';
  return code;
}

int Fail(const absl::Status& status) noexcept {
  const auto text = status.message();
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return Fail(KVTIER_INVALID, std::string(text));
    case absl::StatusCode::kResourceExhausted:
      return Fail(KVTIER_EXHAUSTED, std::string(text));
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return Fail(KVTIER_ABSENT, std::string(text));
    default:
      return Fail(KVTIER_INTERNAL, std::string(text));
  }
}

absl::StatusOr<std::vector<EngineKey>> KeysFrom(const kvtier_bytes* keys, size_t count,
                                                const std::string& owner) {
  if (count > KVTIER_MAX_KEYS) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " keys in one call; must be at most ", KVTIER_MAX_KEYS));
  }
  if (keys == nullptr && count > 0) {
    return absl::InvalidArgumentError(absl::StrCat(owner, "keys is NULL"));
  }
  std::vector<EngineKey> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (keys[i].data == nullptr || !EngineKey::IsSize(keys[i].size)) {
      return KeyFrom(keys[i], [&] { return absl::StrCat(owner, "keys[", i, "]"); }).status();
    }
    // The key is built in its place: to move it would take longer than the rest of this loop.
    out.emplace_back(absl::string_view(static_cast<const char*>(keys[i].data), keys[i].size));
  }
  return out;
}

absl::StatusOr<std::optional<absl::Duration>> TimeoutFrom(int32_t timeout_ms) {
  if (timeout_ms < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout_ms is ", timeout_ms, "; must not be negative"));
  }
  std::optional<absl::Duration> timeout;
  if (timeout_ms != KVTIER_DEFAULT_TIMEOUT) timeout = absl::Milliseconds(timeout_ms);
  return timeout;
}

}  // namespace kvtier::c

extern "C" const char* kvtier_last_error(void) { return kvtier::c::last_error; }
