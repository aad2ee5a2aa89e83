#include "bench/plain_ways.h"

#ifdef KVTIER_HAVE_CUDA
#include <memory>

#include "bench/call_copies.h"
#include "bench/row_copies.h"
#endif

namespace kvtier::bench {
#ifdef KVTIER_HAVE_CUDA

namespace {

template <typename Copies>
CopyWay WayOf(GpuRig* rig, std::span<const CopySegment> in, std::span<const CopySegment> out) {
  const auto sends =
      std::make_shared<Copies>(rig, &rig->stream(), CopyDirection::kHostToDevice, in);
  const auto fetches =
      std::make_shared<Copies>(rig, &rig->stream(), CopyDirection::kDeviceToHost, out);
  return {[sends] { return sends->Run(); }, [fetches] { return fetches->Run(); }};
}

}  // namespace

std::optional<CopyWay> CallEach(GpuRig* rig, std::span<const CopySegment> in,
                                std::span<const CopySegment> out) {
  if (rig->emulated()) return std::nullopt;
  return WayOf<CallCopies>(rig, in, out);
}

std::optional<CopyWay> WarpARow(GpuRig* rig, std::span<const CopySegment> in,
                                std::span<const CopySegment> out) {
  if (rig->emulated()) return std::nullopt;
  return WayOf<RowCopies>(rig, in, out);
}

#else

std::optional<CopyWay> CallEach(GpuRig* /*rig*/, std::span<const CopySegment> /*in*/,
                                std::span<const CopySegment> /*out*/) {
  return std::nullopt;
}

std::optional<CopyWay> WarpARow(GpuRig* /*rig*/, std::span<const CopySegment> /*in*/,
                                std::span<const CopySegment> /*out*/) {
  return std::nullopt;
}

#endif

}  // namespace kvtier::bench
