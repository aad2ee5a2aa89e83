#include "client/c/asked.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

absl::StatusOr<OnboardTarget> TargetFrom(int target) {
  if (target == KVTIER_HOST) return OnboardTarget::kHost;
  if (target == KVTIER_GPU) return OnboardTarget::kGpu;
  return absl::InvalidArgumentError(
      absl::StrCat("target is ", target, "; must be KVTIER_HOST or KVTIER_GPU"));
}

// Checks how much is asked about, before it is copied; the client checks the rest.
absl::Status CheckSizes(std::span<const kvtier_sequence> sequences) {
  if (sequences.data() == nullptr && !sequences.empty()) {
    return absl::InvalidArgumentError("sequences is NULL");
  }
  if (sequences.size() > KVTIER_MAX_SEQUENCES) {
    return absl::InvalidArgumentError(absl::StrCat(
        sequences.size(), " sequences in one call; must be 1 to ", KVTIER_MAX_SEQUENCES));
  }
  size_t keys = 0;
  for (const kvtier_sequence& sequence : sequences) {
    keys += std::min(sequence.count, std::numeric_limits<size_t>::max() - keys);
  }
  if (keys > KVTIER_MAX_KEYS) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys, " keys in one call; must be at most ", KVTIER_MAX_KEYS));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Asked> Asked::From(const CallArguments& arguments) {
  KVT_RETURN_IF_ERROR(CheckSizes(arguments.sequences));
  const size_t count = arguments.sequences.size();
  Asked asked;
  for (size_t i = 0; i < count; ++i) {
    const std::string owner = count == 1 ? std::string() : absl::StrCat("sequences[", i, "].");
    KVT_RETURN_IF_ERROR(asked.Add(arguments.sequences[i], owner));
  }
  KVT_ASSIGN_OR_RETURN(asked.target_, TargetFrom(arguments.target));
  KVT_ASSIGN_OR_RETURN(asked.timeout_, TimeoutFrom(arguments.timeout_ms));
  asked.local_only_ = (arguments.flags & KVTIER_LOCAL_ONLY) != 0;
  return asked;
}

absl::Status Asked::Add(const kvtier_sequence& sequence, const std::string& owner) {
  KVT_ASSIGN_OR_RETURN(std::vector<EngineKey> keys, KeysFrom(sequence.keys, sequence.count, owner));
  KeySequence& added = sequences_.emplace_back();
  if (sequence.parent.size > 0) {
    const auto name = [&] { return absl::StrCat(owner, "parent"); };
    KVT_ASSIGN_OR_RETURN(added.parent, KeyFrom(sequence.parent, name));
  }
  if (sequence.is_set > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner, "is_set is ", sequence.is_set, "; must be 0 or 1"));
  }
  if (sequence.no_store > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner, "no_store is ", sequence.no_store, "; must be 0 or 1"));
  }
  keys_.push_back(std::move(keys));
  added.space = SpaceHandle{sequence.space};
  added.keys = keys_.back();
  added.is_set = sequence.is_set == 1;
  if (sequence.max_tokens > 0) added.max_tokens = sequence.max_tokens;
  added.no_store = sequence.no_store == 1;
  if (sequence.lengths != nullptr) added.lengths = {sequence.lengths, sequence.count};
  return absl::OkStatus();
}

}  // namespace kvtier::c
