// CallRequest has the arguments of one call of kvtier.h or kvtier_sequences.h as the client takes
// them.
#ifndef KVTIER_CLIENT_C_CALL_REQUEST_H_
#define KVTIER_CLIENT_C_CALL_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/c/kvtier_sequences.h"
#include "client/client.h"
#include "client/key_sequence.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"

namespace kvtier::c {

// Arguments of a call as the C program passed them, not validated yet.
struct CallArguments {
  std::span<const kvtier_sequence> sequences;
  int target = KVTIER_HOST;  // Tier that an onboard or a reserve asks for.
  uint32_t flags = 0;
  int32_t timeout_ms = 0;
};

// Returns the hint; NULL gives an empty one. Errors: kInvalidArgument, naming the field of
// `owner`'s hint: "sequences[2].hint.turn".
absl::StatusOr<ReuseHint> HintFrom(const kvtier_reuse_hint* theirs, const std::string& owner);
// Returns the one sequence of a call of kvtier.h.
inline kvtier_sequence RunOf(kvtier_space space, const kvtier_bytes* keys, size_t count) {
  return {.space = space,
          .is_set = 0,
          .keys = keys,
          .count = count,
          .parent = {},
          .max_tokens = 0,
          .no_store = 0,
          .lengths = nullptr,
          .hint = nullptr};
}
// Returns `run` with the parent `parent`, which may be NULL.
inline kvtier_sequence RunWithParent(const kvtier_bytes* parent, kvtier_sequence run) {
  if (parent != nullptr) run.parent = *parent;
  return run;
}
inline std::span<const kvtier_sequence> Only(const kvtier_sequence& sequence) {
  return {&sequence, 1};
}

// CallRequest owns the keys of its sequences. Move-only.
class CallRequest {
 public:
  // Copies the arguments. Errors: kInvalidArgument, naming the argument; of several sequences as
  // "sequences[2].keys[0]".
  static absl::StatusOr<CallRequest> From(const CallArguments& arguments);
  CallRequest(CallRequest&&) noexcept = default;
  CallRequest& operator=(CallRequest&&) = delete;

  std::span<const KeySequence> sequences() const { return sequences_; }
  MatchOptions match() const { return {.timeout = timeout_, .local_only = local_only_}; }
  OnboardOptions onboard() const {
    return {.timeout = timeout_, .target = target_, .local_only = local_only_};
  }
  ReserveOptions reserve() const { return {.target = target_, .timeout = timeout_}; }

 private:
  CallRequest() = default;
  absl::Status Add(const kvtier_sequence& sequence, const std::string& owner);

  std::vector<std::vector<EngineKey>> keys_;
  std::vector<KeySequence> sequences_;  // Their spans are of `keys_`; a move leaves these in place.
  OnboardTarget target_ = OnboardTarget::kHost;
  bool local_only_ = false;
  std::optional<absl::Duration> timeout_;
};

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_CALL_REQUEST_H_
