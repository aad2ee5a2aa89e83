// Kill points: named places at which a test can have its own process die, as kill -9
// would have it: between two steps whose order matters, not at a moment drawn by
// chance. In every build but that test's the macro is a check of the name and no code.
//
// Thread-safe: a place may be reached on any thread.
#ifndef KVTIER_CORE_KILL_POINT_H_
#define KVTIER_CORE_KILL_POINT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvtier {

// Names of all places. The test kills at each of them, so it fails for a name without a place; a
// place without a name does not compile.
inline constexpr auto kKillPoints = std::to_array<std::string_view>({
    // A put, from its room to its index entry. Reclaim reaches record.* too, when it copies a
    // block, and reads reach io.*.
    "put.joined_put",
    "put.reserved",
    "record.header_encoded",
    "io.submitted",
    "record.written",
    "put.before_commit",
    "put.committed",
    "put.published",
    "put.done",
    // One batch of manifest changes.
    "commit.gathering",
    "commit.joined",
    "commit.writing",
    "commit.done",
    "manifest.before_write",
    "manifest.after_write",
    "manifest.back_on_executor",
    // One segment's end.
    "reclaim.joined",
    "reclaim.victim_chosen",
    "reclaim.begun",
    "reclaim.before_read",
    "reclaim.after_read",
    "reclaim.before_write",
    "reclaim.after_write",
    "reclaim.before_row",
    "reclaim.before_move",
    "reclaim.moved",
    "reclaim.before_drop",
    "reclaim.unpublished",
    "reclaim.before_commit",
    "reclaim.committed",
    "reclaim.freed",
    "reclaim.done",
    "segment.sealed",
    "segment.opened",
    // A block that is erased: by a caller, or because it was found damaged.
    "erase.begun",
    "erase.unpublished",
    "erase.committed",
    "damaged.found",
    "damaged.unpublished",
    "damaged.committed",
    // A disk that is opened.
    "open.directory_made",
    "open.locked",
    "open.segment_created",
    "open.segment_preallocated",
    "open.files_ready",
    "open.before_manifest",
    "open.manifest_opened",
    "open.disk_ready",
    "open.loading",
    "open.row_read",
    "open.loaded",
    "open.before_repair",
    "open.repaired",
    "open.block_indexed",
    "open.done",
    // A disk that is made again, because its manifest is gone or damaged.
    "renew.damaged",
    "renew.begun",
    "renew.segment_unlinked",
    "renew.unlinked",
    "renew.recreated",
    "renew.before_destroy",
    "renew.destroyed",
    // A residency table: a block that comes, goes or changes its tiers, and a larger table.
    "residency.word_written",
    "residency.word_changed",
    "residency.word_freed",
    "residency.word_reused",
    "residency.overflow_counted",
    "residency.overflow_uncounted",
    "residency.next_made",
    "residency.buckets_taken_over",
    "residency.replaced",
    "residency.retired",
});
// Points of the tables that workers read; all others are a disk's.
constexpr bool IsResidencyKillPoint(std::string_view name) {
  return name.starts_with("residency.");
}

// Returns the place of a name in the list, or the list's size() if it is not there.
constexpr size_t KillPointNumber(std::string_view name) {
  return static_cast<size_t>(std::find(kKillPoints.begin(), kKillPoints.end(), name) -
                             kKillPoints.begin());
}

// Counts a hit; does not return from the hit that was armed. This function and those after it exist
// only in builds with KVTIER_KILL_POINTS.
void HitKillPoint(size_t number);
// Has the process killed at the `nth` hit of the place from now on (1: the next). One place at a
// time. REQUIRES: the name is in the list, and nth > 0.
void ArmKillPoint(std::string_view name, uint64_t nth);
// Returns how often the place was reached. REQUIRES: number < kKillPoints.size().
uint64_t KillPointHits(size_t number);

}  // namespace kvtier

#define KVT_KILL_POINT_IS_LISTED(name)                                          \
  static_assert(::kvtier::KillPointNumber(name) < ::kvtier::kKillPoints.size(), \
                "this kill point is not in the list of core/kill_point.h: " name)
#ifdef KVTIER_KILL_POINTS
#define KVT_KILL_POINT(name)      \
  KVT_KILL_POINT_IS_LISTED(name); \
  ::kvtier::HitKillPoint(::kvtier::KillPointNumber(name))
#else
#define KVT_KILL_POINT(name) KVT_KILL_POINT_IS_LISTED(name)
#endif

#endif  // KVTIER_CORE_KILL_POINT_H_
