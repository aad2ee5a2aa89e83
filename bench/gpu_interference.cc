// What an engine's own kernels lose while each path copies beside them.
#include <array>
#include <cstdio>

#include "bench/gpu_sections.h"
#ifdef KVTIER_HAVE_CUDA
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/gpu_kernels.h"
#include "bench/gpu_stream.h"
#include "bench/rig_cell.h"
#include "bench/row_copies.h"
#include "core/check.h"
#include "kernels/float_formats.h"
#endif

namespace kvtier::bench {

#ifndef KVTIER_HAVE_CUDA

void MeasureInterference(GpuRig* /*rig*/, const LinkCeilings& /*ceilings*/,
                         GpuFigures* /*figures*/) {
  std::printf("\nNOT MEASURED: a GEMM and a memory loop beside copies: this build has no CUDA\n");
}

#else

namespace {

constexpr double kLoopSeconds = 0.1;  // Of a loop alone, if that many launches are enough.
constexpr int kRounds = 5;
constexpr uint64_t kWholeRig = uint64_t{256} << 20;  // Smaller ones only show that it works.

// Something an engine runs in a loop.
struct Load {
  const char* name;
  const char* unit;
  double work;  // Of one launch, in the unit.
  std::function<void()> launch;
};

// Products of small numbers, so that fp32 has their sums exactly; some are compared.
class GemmLoad {
 public:
  GemmLoad(GpuStream* stream, uint32_t n)
      : stream_(stream),
        n_(n),
        a_(uint64_t{n} * n * sizeof(uint16_t)),
        b_(uint64_t{n} * n * sizeof(uint16_t)),
        c_(uint64_t{n} * n * sizeof(float)) {
    std::mt19937_64 random(n);
    a_values_ = Values(random);
    b_values_ = Values(random);
    WriteToGpu(a_.data(), std::as_bytes(std::span(a_values_)));
    WriteToGpu(b_.data(), std::as_bytes(std::span(b_values_)));
    Launch();
    stream_->Wait();
    for (int i = 0; i < 64; ++i) Compare(random() % n, random() % n);
  }
  void Launch() {
    CheckCuda("a GEMM", GemmOnDevice({.a = reinterpret_cast<const uint16_t*>(a_.data()),
                                      .b = reinterpret_cast<const uint16_t*>(b_.data()),
                                      .c = reinterpret_cast<float*>(c_.data()),
                                      .n = n_},
                                     stream_->handle()));
  }
  double work() const { return 2.0 * n_ * n_ * n_; }

 private:
  std::vector<uint16_t> Values(std::mt19937_64& random) const {
    std::vector<uint16_t> values(uint64_t{n_} * n_);
    for (uint16_t& value : values) {
      value = kernels::Bf16FromFloat(static_cast<float>(static_cast<int>(random() % 17) - 8));
    }
    return values;
  }
  void Compare(uint64_t row, uint64_t column) const {
    float expected = 0;
    for (uint64_t k = 0; k < n_; ++k) {
      expected += kernels::FloatFromBf16(a_values_[row * n_ + k]) *
                  kernels::FloatFromBf16(b_values_[k * n_ + column]);
    }
    float found = 0;
    ReadFromGpu(c_.data() + (row * n_ + column) * sizeof(float),
                std::as_writable_bytes(std::span(&found, 1)));
    KVT_CHECK(found == expected);
  }

  GpuStream* const stream_;
  const uint32_t n_;
  GpuMemory a_;
  GpuMemory b_;
  GpuMemory c_;
  std::vector<uint16_t> a_values_;
  std::vector<uint16_t> b_values_;
};

// As a decode step does: all of memory that it can get, and hardly a computation.
class MemoryLoad {
 public:
  MemoryLoad(GpuStream* stream, uint64_t bytes)
      : stream_(stream), bytes_(bytes), a_(bytes), b_(bytes), c_(bytes) {
    const std::vector<float> ones(bytes / sizeof(float), 1.0F);
    WriteToGpu(a_.data(), std::as_bytes(std::span(ones)));
    WriteToGpu(b_.data(), std::as_bytes(std::span(ones)));
    Launch();
    stream_->Wait();
    std::vector<float> found(ones.size());
    ReadFromGpu(c_.data(), std::as_writable_bytes(std::span(found)));
    KVT_CHECK(std::ranges::count(found, 4.0F) == static_cast<int64_t>(found.size()));
  }
  void Launch() {
    CheckCuda("a memory loop", TriadOnDevice({.a = reinterpret_cast<const float*>(a_.data()),
                                              .b = reinterpret_cast<const float*>(b_.data()),
                                              .c = reinterpret_cast<float*>(c_.data()),
                                              .count = bytes_ / sizeof(float),
                                              .thread_blocks = 8 * GpuProcessors()},
                                             stream_->handle()));
  }
  double work() const { return 3.0 * static_cast<double>(bytes_); }

 private:
  GpuStream* const stream_;
  const uint64_t bytes_;
  GpuMemory a_;
  GpuMemory b_;
  GpuMemory c_;
};

// Copies without end: each call is one burst.
struct Copier {
  const char* name;
  CopyPath path;
  bool rows;
};
constexpr std::array<Copier, 4> kCopiers = {{{"batch", CopyPath::kBatch, false},
                                             {"staged", CopyPath::kStaged, false},
                                             {"direct", CopyPath::kDirect, false},
                                             {"a_warp_a_row", CopyPath::kBatch, true}}};

class Interference {
 public:
  Interference(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures)
      : rig_(rig), ceilings_(ceilings), figures_(figures) {}

  void Measure(const Load& load) {
    const int launches = WarmUp(load);
    std::printf("  %s\n", load.name);
    for (const CopyDirection direction :
         {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
      for (const Copier& copier : kCopiers) MeasureBeside(load, launches, copier, direction);
    }
  }

 private:
  static constexpr uint64_t kSegment = 64 << 10;
  static constexpr uint64_t kMostSegments = 1024;

  // For a second, until the clocks of the GPU have settled. Returns the launches of a loop.
  int WarmUp(const Load& load) {
    const double loop = rig_->bytes() < kWholeRig ? kLoopSeconds / 20 : kLoopSeconds;
    const absl::Time end = absl::Now() + absl::Seconds(10 * loop);
    double one = 0;
    do {
      one = Loop(load, 4, [] {}) / 4;
    } while (absl::Now() < end);
    return std::clamp(static_cast<int>(std::lround(loop / one)), 4, 512);
  }

  // Alone and beside copies in turns: what the clocks do meanwhile happens to both.
  void MeasureBeside(const Load& load, int launches, const Copier& copier,
                     CopyDirection direction) {
    const bool in = direction == CopyDirection::kHostToDevice;
    const uint64_t count = std::min<uint64_t>(kMostSegments, rig_->bytes() / kSegment);
    const RigCell cell(rig_, kSegment, count, copier.path);
    const CopyWay way = WayOf(copier, cell);
    rig_->Prove(cell.in, cell.out, way);
    std::vector<double> alone;
    std::vector<double> beside;
    std::vector<double> copied;  // Bytes a second.
    for (int round = 0; round < kRounds; ++round) {
      alone.push_back(Loop(load, launches, [] {}));
      double moved = 0;
      const absl::Time start = absl::Now();
      beside.push_back(Loop(load, launches, [&] {
        (in ? way.in : way.out)();
        moved += static_cast<double>(kSegment * count);
      }));
      copied.push_back(moved / absl::ToDoubleSeconds(absl::Now() - start));
    }
    const double slower = Median(beside) / Median(alone);
    const double speed = Median(copied);
    const double share = speed / (in ? ceilings_.in : ceilings_.out);
    std::printf("    %-4s %-14s %9.1f %s alone, %7.2f %% slower beside %6.1f GB/s (%5.1f %%)\n",
                in ? "in" : "out", copier.name, launches * load.work / Median(alone), load.unit,
                100 * (slower - 1), speed / 1e9, 100 * share);
    const std::string name =
        absl::StrCat("gpu.beside.", load.name, ".", in ? "in" : "out", ".", copier.name);
    figures_->push_back({name, Median(beside) / launches * 1e3, "ms", slower, "alone"});
    figures_->push_back({name + ".copies", speed / 1e9, "GB/s", share, "pinned copy"});
  }

  // Seconds on the device of so many launches, while `beside` is called again and again.
  template <typename Beside>
  double Loop(const Load& load, int launches, Beside beside) {
    load.launch();  // Warms up.
    rig_->stream().Begin();
    for (int i = 0; i < launches; ++i) load.launch();
    rig_->stream().End();
    while (!rig_->stream().Ended()) beside();
    return rig_->stream().Seconds();
  }
  CopyWay WayOf(const Copier& copier, const RigCell& cell) {
    if (!copier.rows) return rig_->ByBatches(cell.in_batches, cell.out_batches);
    // Not in the loop's stream: it would wait for it.
    const auto in =
        std::make_shared<RowCopies>(rig_, &own_stream_, CopyDirection::kHostToDevice, cell.in);
    const auto out =
        std::make_shared<RowCopies>(rig_, &own_stream_, CopyDirection::kDeviceToHost, cell.out);
    return {[in] { return in->Run(); }, [out] { return out->Run(); }};
  }

  GpuRig* const rig_;
  const LinkCeilings ceilings_;
  GpuFigures* const figures_;
  GpuStream own_stream_;
};

}  // namespace

void MeasureInterference(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures) {
  if (rig->emulated()) {
    std::printf("\nNOT MEASURED: a GEMM and a memory loop beside copies: they need a GPU\n");
    return;
  }
  std::printf(
      "\nan engine's kernels beside copies of 64 KiB segments, copies as share of the ceiling\n");
  const bool small = rig->bytes() < kWholeRig;
  Interference interference(rig, ceilings, figures);
  {
    GemmLoad gemm(&rig->stream(), small ? kGemmTile : 8192);
    interference.Measure({"gemm", "TFLOP/s", gemm.work() / 1e12, [&] { gemm.Launch(); }});
  }
  MemoryLoad memory(&rig->stream(), small ? uint64_t{1} << 20 : uint64_t{256} << 20);
  interference.Measure({"memory", "GB/s", memory.work() / 1e9, [&] { memory.Launch(); }});
}

#endif

}  // namespace kvtier::bench
