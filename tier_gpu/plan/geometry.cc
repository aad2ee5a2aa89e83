#include "tier_gpu/plan/geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

template <typename... Parts>
absl::Status WrongGeometry(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("geometry: ", parts...));
}

absl::Status CheckFields(const KvGeometry& geometry) {
  if (geometry.layers == 0 || geometry.layers > kMaxGeometryLayers) {
    return WrongGeometry("layers is ", geometry.layers, "; must be 1 to ", kMaxGeometryLayers);
  }
  if (geometry.slots == 0) return WrongGeometry("slots is 0; must be positive");
  if (geometry.run_bytes == 0) return WrongGeometry("run_bytes is 0; must be positive");
  const size_t tensors = size_t{geometry.layers} * geometry.axis_count();
  if (geometry.run_bytes > kMaxBlockBytes / tensors) {
    return WrongGeometry("run_bytes is ", geometry.run_bytes, "; ", tensors,
                         " of them must be at most a block's ", kMaxBlockBytes);
  }
  if (geometry.block_stride < geometry.run_bytes) {
    return WrongGeometry("block_stride is ", geometry.block_stride,
                         "; must be at least run_bytes, ", geometry.run_bytes);
  }
  const uint64_t strides = geometry.slots - 1;
  if (strides > 0 && geometry.block_stride > (kMost - geometry.run_bytes) / strides) {
    return WrongGeometry("block_stride is ", geometry.block_stride, "; times ", geometry.slots,
                         " slots it must fit in 64 bits");
  }
  if (geometry.bases.size() != tensors) {
    return WrongGeometry("bases has ", geometry.bases.size(), " entries; must have ", tensors);
  }
  return absl::OkStatus();
}

std::string NameOf(const KvGeometry& geometry, size_t tensor) {
  return absl::StrCat("bases[", tensor, "] (layer ", tensor / geometry.axis_count(), ", axis ",
                      tensor % geometry.axis_count(), ")");
}

// Checks whole tensors, including the room between their runs: an engine's allocation includes it.
absl::Status CheckRanges(const KvGeometry& geometry, std::span<const DeviceRange> registered) {
  const uint64_t bytes = geometry.tensor_bytes();
  for (size_t i = 0; i < geometry.bases.size(); ++i) {
    const uint64_t base = geometry.bases[i];
    if (base > kMost - bytes) {
      return WrongGeometry(NameOf(geometry, i), " is ", base, "; with its ", bytes,
                           " bytes it must fit in 64 bits");
    }
    const bool inside = std::ranges::any_of(registered, [&](const DeviceRange& range) {
      return base >= range.offset && bytes <= range.bytes &&
             base - range.offset <= range.bytes - bytes;
    });
    if (!inside) {
      return WrongGeometry(NameOf(geometry, i), " is ", base, "; its ", bytes,
                           " bytes must lie in a registered range");
    }
  }
  return absl::OkStatus();
}

// Returns whether a run of one tensor overlaps a run of another tensor that begins `gap` bytes
// later.
bool Overlaps(const KvGeometry& geometry, uint64_t gap) {
  if (gap >= geometry.tensor_bytes()) return false;
  // The runs of this tensor just before and just after the other tensor's first run are nearest to
  // it. Both tensors have one stride, so later runs have the same distances. If there is no run
  // after it, `gap` < tensor_bytes() means that the run before it overlaps.
  const uint64_t behind = gap % geometry.block_stride;
  return behind < geometry.run_bytes || geometry.block_stride - behind < geometry.run_bytes;
}

absl::Status CheckOverlaps(const KvGeometry& geometry) {
  std::vector<size_t> order(geometry.bases.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&geometry](size_t i) { return geometry.bases[i]; });
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      const uint64_t gap = geometry.bases[order[j]] - geometry.bases[order[i]];
      if (gap >= geometry.tensor_bytes()) break;
      if (Overlaps(geometry, gap)) {
        return WrongGeometry(NameOf(geometry, order[j]), " is ", geometry.bases[order[j]],
                             "; its runs must not overlap those of ", NameOf(geometry, order[i]),
                             ", ", geometry.bases[order[i]]);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string SpaceLayout(KvAxes axes, KvOrder order) {
  const std::string rows = order == KvOrder::kTokenHead ? "token,head" : "head,token";
  switch (axes) {
    case KvAxes::kApart:
      return "layer,kv," + rows + ",dim";
    case KvAxes::kFused:
      return "layer," + rows + ",kv,dim";
    case KvAxes::kLatent:
      return "layer,token,row";
  }
  KVT_CHECK(false);
}

absl::Status KvGeometry::Validate(std::span<const DeviceRange> registered) const {
  KVT_RETURN_IF_ERROR(CheckFields(*this));
  KVT_RETURN_IF_ERROR(CheckRanges(*this, registered));
  return CheckOverlaps(*this);
}

std::vector<KvRun> KvGeometry::Runs(uint32_t slot) const {
  KVT_CHECK(slot < slots);
  std::vector<KvRun> runs;
  for (const uint64_t base : bases) {
    const uint64_t device_offset = base + slot * block_stride;
    if (!runs.empty() && runs.back().device_offset + runs.back().bytes == device_offset) {
      runs.back().bytes += run_bytes;
    } else {
      runs.push_back({.device_offset = device_offset, .bytes = run_bytes});
    }
  }
  return runs;
}

}  // namespace kvtier
