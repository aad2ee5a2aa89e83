#include "client/client_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/fork_guard.h"
#include "core/status_macros.h"

namespace kvtier {

absl::Status CheckTimeout(const std::optional<absl::Duration>& timeout) {
  if (!timeout || *timeout >= absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("timeout is ", absl::FormatDuration(*timeout), "; must not be negative"));
}

Client::State::State(const ClientOptions& options)
    : default_timeout(options.default_timeout),
      link(new AgentLink({.session = {.socket_dir = options.socket_dir,
                                      .tenant = options.tenant,
                                      .group = options.group,
                                      .tenant_key = TenantKey::FromSecret(options.tenant_secret),
                                      .session_key = SessionKey::FromSecret(options.tenant_secret),
                                      .gpu_by_device = options.gpu_by_device,
                                      .gpu_device = options.gpu_device},
                          .connect_timeout = options.connect_timeout,
                          .breaker = options.breaker}),
           DeleteUnlessForked()),
      submitted(kMaxSubmitted) {}

absl::StatusOr<absl::Duration> Client::State::Timeout(
    const std::optional<absl::Duration>& asked) const {
  KVT_RETURN_IF_ERROR(CheckTimeout(asked));
  return std::min(asked.value_or(default_timeout), kMaxTimeout);
}

absl::Status Client::State::NoSuchSpace(SpaceHandle space) {
  return absl::InvalidArgumentError(absl::StrCat("space handle ", static_cast<uint32_t>(space),
                                                 "; must be one that this client registered"));
}

absl::Status Client::State::Check(SpaceHandle space, std::span<const EngineKey> keys) const {
  if (!InForkedChild() && !link->spaces().Has(static_cast<size_t>(space))) {
    return NoSuchSpace(space);
  }
  if (keys.size() > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys.size(), " keys in one call; must be at most ", kMaxKeys));
  }
  return absl::OkStatus();
}

absl::Status Client::State::Check(std::span<const SpaceHandle> spaces) const {
  if (spaces.empty() || spaces.size() > kMaxSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat(spaces.size(), " spaces in one call; must be 1 to ", kMaxSequences));
  }
  for (const SpaceHandle space : spaces) KVT_RETURN_IF_ERROR(Check(space, {}));
  return absl::OkStatus();
}

absl::Status Client::State::Check(std::span<const KeySequence> sequences) const {
  if (sequences.empty() || sequences.size() > kMaxSequences) {
    return absl::InvalidArgumentError(
        absl::StrCat(sequences.size(), " sequences in one call; must be 1 to ", kMaxSequences));
  }
  size_t keys = 0;
  for (const KeySequence& sequence : sequences) {
    KVT_RETURN_IF_ERROR(Check(sequence.space, sequence.keys));
    keys += sequence.keys.size();
    if (sequence.hint.priority > kMaxPriority) {
      return absl::InvalidArgumentError(absl::StrCat("hint.priority is ", sequence.hint.priority,
                                                     "; must be 0 to ", kMaxPriority));
    }
  }
  if (keys > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys, " keys in one call; must be at most ", kMaxKeys));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<KeySequence>> Client::State::Taken(
    std::span<const KeySequence> sequences) const {
  KVT_RETURN_IF_ERROR(Check(sequences));
  std::vector<KeySequence> taken(sequences.begin(), sequences.end());
  if (InForkedChild()) return taken;  // A forked child misses all blocks.
  for (KeySequence& sequence : taken) {
    if (!sequence.max_tokens) continue;
    const uint64_t tokens = link->spaces().TokensPerBlockOf(static_cast<size_t>(sequence.space));
    if (tokens == 0) continue;  // The space was unregistered meanwhile: a miss.
    const uint64_t blocks = *sequence.max_tokens / tokens;
    sequence.keys = sequence.keys.first(std::min<uint64_t>(sequence.keys.size(), blocks));
  }
  return taken;
}

absl::Status Client::State::CheckReserve(std::span<const KeySequence> sequences,
                                         const ReserveOptions& options) const {
  if (options.parent) {
    return absl::InvalidArgumentError(
        "parent must not be given with sequences, which have their own");
  }
  if (!options.lengths.empty()) {
    return absl::InvalidArgumentError(
        "lengths must not be given with sequences, which have their own");
  }
  KVT_RETURN_IF_ERROR(Check(sequences));
  if (InForkedChild()) return absl::OkStatus();  // A forked child reserves nothing.
  for (const KeySequence& sequence : sequences) {
    KVT_RETURN_IF_ERROR(CheckLengths(sequence, options.target));
  }
  return absl::OkStatus();
}

absl::Status Client::State::CheckLengths(const KeySequence& sequence, OnboardTarget target) const {
  const std::optional<BlockLengths> allowed =
      link->spaces().LengthsOf(static_cast<size_t>(sequence.space));
  if (!allowed) return absl::OkStatus();  // The space was unregistered meanwhile: a miss.
  const std::span<const uint64_t> lengths = sequence.lengths;
  if (lengths.size() != (allowed->any ? sequence.keys.size() : 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lengths: ", lengths.size(), " for ", sequence.keys.size(), " keys; must be ",
                     allowed->any ? "one for each" : "none in a space without any_length"));
  }
  if (allowed->any && target == OnboardTarget::kGpu) {
    return absl::InvalidArgumentError(
        "target is the GPU pool; must be host memory in a space with any_length");
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (allowed->Allow(lengths[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("lengths[", i, "] is ", lengths[i], "; must be 1 to ", allowed->longest));
  }
  return absl::OkStatus();
}

absl::Status Client::State::CheckTicket(const TicketOptions& options) {
  if (options.redemptions < 1 || options.redemptions > kMaxRedemptions) {
    return absl::InvalidArgumentError(
        absl::StrCat("redemptions is ", options.redemptions, "; must be 1 to ", kMaxRedemptions));
  }
  if (options.lifetime < absl::Milliseconds(1) || options.lifetime > kMaxTicketLifetime) {
    return absl::InvalidArgumentError(
        absl::StrCat("lifetime is ", absl::FormatDuration(options.lifetime), "; must be 1ms to ",
                     absl::FormatDuration(kMaxTicketLifetime)));
  }
  return absl::OkStatus();
}

}  // namespace kvtier
