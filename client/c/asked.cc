#include "client/c/asked.h"

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

}  // namespace

absl::StatusOr<Asked> Asked::From(const CallArguments& arguments) {
  const size_t count = arguments.sequences.size();
  if (count > KVTIER_MAX_SEQUENCES) {  // Before room is made for them; the client checks the rest.
    return absl::InvalidArgumentError(
        absl::StrCat(count, " sequences in one call; must be 1 to ", KVTIER_MAX_SEQUENCES));
  }
  if (arguments.sequences.data() == nullptr && count > 0) {
    return absl::InvalidArgumentError("sequences is NULL");
  }
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
    KVT_ASSIGN_OR_RETURN(added.parent, KeyFrom(sequence.parent, absl::StrCat(owner, "parent")));
  }
  if (sequence.is_set > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(owner, "is_set is ", sequence.is_set, "; must be 0 or 1"));
  }
  keys_.push_back(std::move(keys));
  added.space = SpaceHandle{sequence.space};
  added.keys = keys_.back();
  added.is_set = sequence.is_set == 1;
  return absl::OkStatus();
}

}  // namespace kvtier::c
