#include "client/residency_lookup.h"

#include <algorithm>
#include <array>

namespace kvtier {
namespace {

// Keys whose block keys are computed before the first is looked up: enough memory fetches at once
// to hide the time of each, and few enough that the block keys stay in the nearest cache.
constexpr size_t kKeysAtOnce = 64;
// Keys of a run that are looked up first: few, because the very first may be absent.
constexpr size_t kFirstKeysAtOnce = 4;

// REQUIRES: kKeysAtOnce keys at most.
void LookUp(const ResidencyView& view, const BlockNamer& namer, std::span<const EngineKey> keys,
            std::span<Residence> residences) {
  std::array<BlockKey, kKeysAtOnce> names;
  namer.NameAll(keys, std::span(names).first(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) view.PrefetchCacheLines(names[i]);
  for (size_t i = 0; i < keys.size(); ++i) residences[i] = view.Look(names[i]);
}

}  // namespace

bool LookUpAll(const ResidencyView& view, const BlockNamer& namer, std::span<const EngineKey> keys,
               std::span<Residence> residences) {
  for (size_t at = 0; at < keys.size(); at += kKeysAtOnce) {
    const size_t count = std::min(kKeysAtOnce, keys.size() - at);
    LookUp(view, namer, keys.subspan(at, count), residences.subspan(at, count));
  }
  if (!view.retired()) return true;
  std::fill_n(residences.begin(), keys.size(), Residence::kPerhaps);
  return false;
}

ResidentKeys LookUpRun(const ResidencyView& view, const BlockNamer& namer,
                       std::span<const EngineKey> keys) {
  std::array<Residence, kKeysAtOnce> residences;
  size_t run = 0;
  for (size_t at_once = kFirstKeysAtOnce; run < keys.size();
       at_once = std::min(kKeysAtOnce, 4 * at_once)) {
    const size_t count = std::min(at_once, keys.size() - run);
    LookUp(view, namer, keys.subspan(run, count), residences);
    const auto end = residences.begin() + static_cast<std::ptrdiff_t>(count);
    const auto absent = std::find(residences.begin(), end, Residence::kAbsent);
    run += static_cast<size_t>(absent - residences.begin());
    if (absent != end) break;
  }
  if (view.retired()) return {.count = keys.size(), .retired = true};
  return {.count = run, .retired = false};
}

}  // namespace kvtier
