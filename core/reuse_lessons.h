// ReuseLessons are what ReuseHazards has learnt so far, and their form outside of the process: from
// them an order of eviction goes on where an earlier order ended. They have ages in seconds but no
// points in time, so it does not matter how much time lies between the two orders.
//
//   magic:8 version:4 | families:2 gaps:2 finishes:2 buckets:2 last bucket's beginning, seconds:4
//   conclusions:8 classes:4, of each: class:2 | uses, seconds: mask of the buckets that are not
//   zero:8, their values as floats:4 | the sum of all that (SummedBytes)
//
// A class without evidence takes no room: of 360 classes some dozens are in use, each with
// 100 to 500 bytes.
//
// Pure.
#ifndef KVTIER_CORE_REUSE_LESSONS_H_
#define KVTIER_CORE_REUSE_LESSONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/reuse_state.h"

namespace kvtier {

// Buckets of age: the first ends at 1 s, the last begins at 13 hours and is open.
inline constexpr size_t kReuseBuckets = 64;
// Bumped when the form, the meaning of a class or the bounds of a bucket change.
inline constexpr uint32_t kReuseLessonsVersion = 1;

// Evidence of one class, by bucket of age.
struct HazardEvidence {
  std::array<float, kReuseBuckets> uses{};
  std::array<float, kReuseBuckets> seconds{};  // Time that blocks waited in that bucket, summed.
  friend bool operator==(const HazardEvidence&, const HazardEvidence&) = default;
};

struct ReuseLessons {
  uint64_t conclusions = 0;             // Times that worths were worked out from lessons.
  std::vector<HazardEvidence> classes;  // Evidence of each class.
  friend bool operator==(const ReuseLessons&, const ReuseLessons&) = default;
};

// REQUIRES: each class has its evidence.
std::string EncodeReuseLessons(const ReuseLessons& lessons);
// Decodes what EncodeReuseLessons() returned. Errors: kDataLoss, the sum does not match, or a value
// cannot have been learnt; kFailedPrecondition, another version wrote the bytes, or one with other
// classes or buckets.
absl::StatusOr<ReuseLessons> DecodeReuseLessons(absl::string_view bytes);

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_LESSONS_H_
