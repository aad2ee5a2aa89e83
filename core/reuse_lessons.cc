#include "core/reuse_lessons.h"

#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/reuse_hazards.h"
#include "core/summed_bytes.h"

namespace kvtier {
namespace {

constexpr uint64_t kReuseMagic = 0x657375657274766b;  // The bytes "kvtreuse".
// Largest value that is read. No order learns as much, because evidence fades, and sums over all
// classes stay finite.
constexpr float kMostOfAValue = 1e18F;

using Values = std::array<float, kReuseBuckets>;
static_assert(kReuseBuckets == 64, "a mask has a bit for each bucket");

// Numbers of classes and buckets; lessons with other ones cannot be believed.
struct Layout {
  uint16_t families = kReuseFamilies;
  uint16_t gaps = kReuseGaps;
  uint16_t finishes = kReuseFinishes;
  uint16_t buckets = kReuseBuckets;
  uint32_t last_begin = 0;  // Seconds, rounded.
  friend bool operator==(const Layout&, const Layout&) = default;
};

Layout LayoutHere() {
  return {.last_begin =
              static_cast<uint32_t>(std::lround(ReuseHazards::BeginOf(kReuseBuckets - 1)))};
}

uint64_t MaskOf(const Values& values) {
  uint64_t mask = 0;
  for (size_t i = 0; i < values.size(); ++i) mask |= uint64_t{values[i] != 0} << i;
  return mask;
}

void Put(const Values& values, SummedWriter* to) {
  to->Put(MaskOf(values));
  for (const float value : values) {
    if (value != 0) to->Put(std::bit_cast<uint32_t>(value));
  }
}

bool Take(SummedReader* from, Values* values) {
  const std::optional<uint64_t> mask = from->Take<uint64_t>();
  if (!mask.has_value()) return false;
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*mask >> i & 1) == 0) continue;
    const std::optional<uint32_t> bits = from->Take<uint32_t>();
    if (!bits.has_value()) return false;
    const float value = std::bit_cast<float>(*bits);
    // This is false for a NaN, too.
    if (!(value > 0 && value <= kMostOfAValue)) return false;
    (*values)[i] = value;
  }
  return true;
}

std::optional<Layout> TakeLayout(SummedReader* from) {
  const auto families = from->Take<uint16_t>();
  const auto gaps = from->Take<uint16_t>();
  const auto finishes = from->Take<uint16_t>();
  const auto buckets = from->Take<uint16_t>();
  const auto last_begin = from->Take<uint32_t>();
  if (!last_begin.has_value()) return std::nullopt;
  return Layout{.families = *families,
                .gaps = *gaps,
                .finishes = *finishes,
                .buckets = *buckets,
                .last_begin = *last_begin};
}

// Takes the fields after the layout; nullopt: they cannot have been learnt.
std::optional<ReuseLessons> TakeLessons(SummedReader* from) {
  const auto conclusions = from->Take<uint64_t>();
  const auto classes = from->Take<uint32_t>();
  if (!classes.has_value() || *classes > kReuseClasses) return std::nullopt;
  ReuseLessons lessons{.conclusions = *conclusions,
                       .classes = std::vector<HazardEvidence>(kReuseClasses)};
  size_t least = 0;  // Numbers come in rising order, each once.
  for (uint32_t i = 0; i < *classes; ++i) {
    const auto of = from->Take<uint16_t>();
    if (!of.has_value() || *of < least || *of >= kReuseClasses) return std::nullopt;
    least = size_t{*of} + 1;
    HazardEvidence& evidence = lessons.classes[*of];
    if (!Take(from, &evidence.uses) || !Take(from, &evidence.seconds)) return std::nullopt;
  }
  if (!from->at_end()) return std::nullopt;
  return lessons;
}

}  // namespace

std::string EncodeReuseLessons(const ReuseLessons& lessons) {
  KVT_CHECK(lessons.classes.size() == kReuseClasses);
  std::vector<uint16_t> known;
  for (size_t of = 0; of < kReuseClasses; ++of) {
    if (lessons.classes[of] != HazardEvidence()) known.push_back(static_cast<uint16_t>(of));
  }
  const Layout layout = LayoutHere();
  SummedWriter out;
  out.Put(kReuseMagic);
  out.Put(kReuseLessonsVersion);
  out.Put(layout.families);
  out.Put(layout.gaps);
  out.Put(layout.finishes);
  out.Put(layout.buckets);
  out.Put(layout.last_begin);
  out.Put(lessons.conclusions);
  out.Put(static_cast<uint32_t>(known.size()));
  for (const uint16_t of : known) {
    out.Put(of);
    Put(lessons.classes[of].uses, &out);
    Put(lessons.classes[of].seconds, &out);
  }
  return std::move(out).End();
}

absl::StatusOr<ReuseLessons> DecodeReuseLessons(absl::string_view bytes) {
  std::optional<SummedReader> in = SummedReader::Open(bytes);
  if (!in.has_value()) return absl::DataLossError("the stored lessons are damaged");
  if (in->Take<uint64_t>() != kReuseMagic) {
    return absl::DataLossError("the stored bytes are no lessons");
  }
  const auto version = in->Take<uint32_t>();
  if (version != kReuseLessonsVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the stored lessons have version ",
                                                      version.value_or(0), ", this program's is ",
                                                      kReuseLessonsVersion));
  }
  if (TakeLayout(&*in) != LayoutHere()) {
    return absl::FailedPreconditionError(
        "the stored lessons have other classes or buckets than this program");
  }
  std::optional<ReuseLessons> lessons = TakeLessons(&*in);
  if (!lessons.has_value()) {
    return absl::DataLossError("the stored lessons are damaged: their parts do not fit together");
  }
  return *std::move(lessons);
}

}  // namespace kvtier
