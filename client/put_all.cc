#include "client/put_all.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/clock.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// At most one in this many of the tenant's slots is reserved at a time.
constexpr uint64_t kPart = 4;

// Wait before blocks for which there was no room are tried again: those that are being written to a
// disk leave soon.
constexpr absl::Duration kRetryAfter = absl::Milliseconds(2);

using PiecesOf = absl::FunctionRef<std::span<const ConstPiece>(size_t i)>;

// Returns the lengths of `count` blocks from `first` on, if each has its own. Errors:
// kInvalidArgument, naming the block that is longer or shorter than one may be.
absl::StatusOr<std::vector<uint64_t>> LengthsOf(const BlockLengths& allowed, size_t first,
                                                size_t count, PiecesOf pieces_of) {
  std::vector<uint64_t> lengths;
  if (!allowed.any) return lengths;
  for (size_t i = first; i < first + count; ++i) {
    lengths.push_back(TotalBytes(pieces_of(i)));
    if (allowed.Allow(lengths.back())) continue;
    return absl::InvalidArgumentError(absl::StrCat("block ", i, ": pieces have ", lengths.back(),
                                                   " bytes; must have 1 to ", allowed.longest));
  }
  return lengths;
}

// Copies the leading blocks that have a slot or need none, and gives back the slots behind the
// first that has no room. Returns how many blocks these are.
absl::StatusOr<size_t> Fill(ReservedBlocks* reserved, size_t first, PiecesOf pieces_of,
                            PutCounts* counts) {
  size_t leading = 0;
  while (leading < reserved->size() && reserved->state(leading) != ReservedBlocks::State::kNoRoom) {
    if (reserved->state(leading) == ReservedBlocks::State::kReserved) {
      KVT_RETURN_IF_ERROR(reserved->CopyIn(leading, pieces_of(first + leading)));
    } else {
      ++counts->present;
    }
    ++leading;
  }
  for (size_t i = leading; i < reserved->size(); ++i) reserved->GiveBack(i);
  return leading;
}

}  // namespace

absl::StatusOr<PutCounts> PutAll(Client* client, SpaceHandle space, std::span<const EngineKey> keys,
                                 absl::FunctionRef<std::span<const ConstPiece>(size_t i)> pieces_of,
                                 const PutAllOptions& options) {
  KVT_ASSIGN_OR_RETURN(const SpaceLimits limits, client->Limits(space));
  PutCounts counts{.missed = keys.size()};
  if (!limits.usable) return counts;
  uint64_t slots = limits.host_slots / kPart;
  if (limits.staging_slots > 0) slots = std::min(slots, limits.staging_slots);
  const size_t part = std::clamp<uint64_t>(slots, 1, Client::kMaxKeys);
  const MonotonicClock clock;
  ReserveOptions reserve{.parent = options.parent, .timeout = options.timeout};
  absl::Time give_up = clock.Now() + options.timeout;
  size_t first = 0;
  while (first < keys.size()) {
    const std::span<const EngineKey> some =
        keys.subspan(first, std::min(part, keys.size() - first));
    KVT_ASSIGN_OR_RETURN(const std::vector<uint64_t> lengths,
                         LengthsOf(limits.lengths, first, some.size(), pieces_of));
    reserve.lengths = lengths;
    KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client->Reserve(space, some, reserve));
    const size_t present = counts.present;
    KVT_ASSIGN_OR_RETURN(const size_t leading, Fill(&reserved, first, pieces_of, &counts));
    const size_t stored = reserved.reserved() == 0 ? 0 : reserved.Commit();
    counts.stored += stored;
    if (stored < leading - (counts.present - present)) break;  // The agent went away.
    if (leading == 0) {
      if (!reserved.answered() || clock.Now() >= give_up) break;
      absl::SleepFor(kRetryAfter);
      continue;
    }
    give_up = clock.Now() + options.timeout;
    first += leading;
    reserve.parent = keys[first - 1];
  }
  counts.missed = keys.size() - counts.stored - counts.present;
  return counts;
}

}  // namespace kvtier
