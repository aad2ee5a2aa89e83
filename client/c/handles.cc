#include "client/c/handles.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

// Of fixed size: keeping an error must not fail.
thread_local char last_error[512] = "";

absl::StatusOr<std::optional<EngineKey>> ParentFrom(const kvtier_bytes* parent) {
  if (parent == nullptr || parent->size == 0) return std::optional<EngineKey>();
  absl::StatusOr<std::vector<EngineKey>> keys = KeysFrom(parent, 1);
  if (!keys.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("parent as ", keys.status().message()));
  }
  return std::optional<EngineKey>(keys->front());
}

}  // namespace

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

absl::StatusOr<std::vector<EngineKey>> KeysFrom(const kvtier_bytes* keys, size_t count) {
  if (count > KVTIER_MAX_KEYS) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " keys in one call; must be at most ", KVTIER_MAX_KEYS));
  }
  if (keys == nullptr && count > 0) return absl::InvalidArgumentError("keys is NULL");
  std::vector<EngineKey> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (keys[i].data == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("keys[", i, "].data is NULL"));
    }
    absl::StatusOr<EngineKey> key =
        EngineKey::FromBytes({static_cast<const char*>(keys[i].data), keys[i].size});
    if (!key.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("keys[", i, "]: ", key.status().message()));
    }
    out.push_back(*std::move(key));
  }
  return out;
}

absl::StatusOr<OnboardTarget> TargetFrom(int target) {
  if (target == KVTIER_HOST) return OnboardTarget::kHost;
  if (target == KVTIER_GPU) return OnboardTarget::kGpu;
  return absl::InvalidArgumentError(
      absl::StrCat("target is ", target, "; must be KVTIER_HOST or KVTIER_GPU"));
}

absl::StatusOr<ReserveRequest> ReserveFrom(const ReserveArguments& arguments) {
  ReserveRequest asked;
  KVT_ASSIGN_OR_RETURN(asked.keys, KeysFrom(arguments.keys, arguments.count));
  KVT_ASSIGN_OR_RETURN(asked.options.parent, ParentFrom(arguments.parent));
  KVT_ASSIGN_OR_RETURN(asked.options.target, TargetFrom(arguments.target));
  asked.options.timeout = TimeoutFrom(arguments.timeout_ms);
  return asked;
}

}  // namespace kvtier::c

extern "C" const char* kvtier_last_error(void) { return kvtier::c::last_error; }
