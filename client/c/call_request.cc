#include "client/c/call_request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "client/conversation.h"
#include "core/status_macros.h"

namespace kvtier::c {
namespace {

static_assert(KVTIER_DEFAULT_PRIORITY == kDefaultPriority);
static_assert(KVTIER_MAX_PRIORITY == kMaxPriority);
static_assert(KVTIER_MAX_CONVERSATION_BYTES == kMaxConversationBytes);

absl::StatusOr<OnboardTarget> TargetFrom(int target) {
  if (target == KVTIER_HOST) return OnboardTarget::kHost;
  if (target == KVTIER_GPU) return OnboardTarget::kGpu;
  return absl::InvalidArgumentError(
      absl::StrCat("target is ", target, "; must be KVTIER_HOST or KVTIER_GPU"));
}

absl::StatusOr<FinishReason> FinishFrom(uint32_t finish) {
  switch (finish) {
    case KVTIER_FINISH_UNKNOWN:
      return FinishReason::kUnknown;
    case KVTIER_FINISH_STOP:
      return FinishReason::kStop;
    case KVTIER_FINISH_TOOL_CALLS:
      return FinishReason::kToolCalls;
    case KVTIER_FINISH_LENGTH:
      return FinishReason::kLength;
    case KVTIER_FINISH_CANCELLED:
      return FinishReason::kCancelled;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("finish is ", finish, "; must be one of KVTIER_FINISH_*"));
  }
}

// Returns whether the field is 1. Errors: kInvalidArgument, the field `name` is neither 0 nor 1.
absl::StatusOr<bool> FlagFrom(uint32_t value, const char* name) {
  if (value > 1) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; must be 0 or 1"));
  }
  return value == 1;
}

// Returns the hint's fields. Errors: kInvalidArgument, naming the field.
absl::StatusOr<ReuseHint> FieldsFrom(const kvtier_reuse_hint& theirs) {
  if (theirs.struct_size < sizeof(kvtier_reuse_hint)) {
    return absl::InvalidArgumentError("struct_size is too small; must be the size of the struct");
  }
  ReuseHint hint;
  if (theirs.conversation.size > 0) {
    if (theirs.conversation.data == nullptr) {
      return absl::InvalidArgumentError("conversation.data is NULL");
    }
    KVT_ASSIGN_OR_RETURN(hint.conversation,
                         ConversationOf({static_cast<const char*>(theirs.conversation.data),
                                         theirs.conversation.size}));
  }
  KVT_ASSIGN_OR_RETURN(const bool has_turn, FlagFrom(theirs.has_turn, "has_turn"));
  if (has_turn) hint.turn = theirs.turn;
  KVT_ASSIGN_OR_RETURN(const bool has_priority, FlagFrom(theirs.has_priority, "has_priority"));
  if (has_priority) {
    if (theirs.priority > KVTIER_MAX_PRIORITY) {
      return absl::InvalidArgumentError(
          absl::StrCat("priority is ", theirs.priority, "; must be 0 to ", KVTIER_MAX_PRIORITY));
    }
    hint.priority = static_cast<uint8_t>(theirs.priority);
  }
  KVT_ASSIGN_OR_RETURN(hint.will_not_return, FlagFrom(theirs.will_not_return, "will_not_return"));
  KVT_ASSIGN_OR_RETURN(hint.finish, FinishFrom(theirs.finish));
  return hint;
}

// Checks the numbers of sequences and keys, before these are copied; the client checks the rest.
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

absl::StatusOr<ReuseHint> HintFrom(const kvtier_reuse_hint* theirs, const std::string& owner) {
  if (theirs == nullptr) return ReuseHint();
  absl::StatusOr<ReuseHint> hint = FieldsFrom(*theirs);
  if (hint.ok()) return hint;
  return absl::InvalidArgumentError(absl::StrCat(owner, "hint.", hint.status().message()));
}

absl::StatusOr<CallRequest> CallRequest::From(const CallArguments& arguments) {
  KVT_RETURN_IF_ERROR(CheckSizes(arguments.sequences));
  const size_t count = arguments.sequences.size();
  CallRequest request;
  for (size_t i = 0; i < count; ++i) {
    const std::string owner = count == 1 ? std::string() : absl::StrCat("sequences[", i, "].");
    KVT_RETURN_IF_ERROR(request.Add(arguments.sequences[i], owner));
  }
  KVT_ASSIGN_OR_RETURN(request.target_, TargetFrom(arguments.target));
  KVT_ASSIGN_OR_RETURN(request.timeout_, TimeoutFrom(arguments.timeout_ms));
  request.local_only_ = (arguments.flags & KVTIER_LOCAL_ONLY) != 0;
  return request;
}

absl::Status CallRequest::Add(const kvtier_sequence& sequence, const std::string& owner) {
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
  KVT_ASSIGN_OR_RETURN(added.hint, HintFrom(sequence.hint, owner));
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
