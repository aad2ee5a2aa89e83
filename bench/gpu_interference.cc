// What an engine's own kernels lose while each path copies beside them.
#include <array>
#include <cstdio>

#include "bench/gpu_sections.h"
#ifdef KVTIER_HAVE_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
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

void MeasureInterference(GpuRig* /*rig*/, GpuFigures* /*figures*/) {
  std::printf("\nNOT MEASURED: a GEMM and a memory loop beside copies: this build has no CUDA\n");
}

#else

namespace {

constexpr double kLoopSeconds = 0.2;  // Of a loop alone, if that many launches are enough.

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
  Interference(GpuRig* rig, GpuFigures* figures) : rig_(rig), figures_(figures) {}

  void Measure(const Load& load) {
    const double one = Loop(load, 1, [] {});
    const int launches = std::clamp(static_cast<int>(std::lround(kLoopSeconds / one)), 4, 512);
    const double alone = Loop(load, launches, [] {});
    std::printf("  %s alone: %.1f %s\n", load.name, launches * load.work / alone, load.unit);
    for (const CopyDirection direction :
         {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
      const char* const where = direction == CopyDirection::kHostToDevice ? "in" : "out";
      for (const Copier& copier : kCopiers) {
        const uint64_t count = std::min<uint64_t>(kMostSegments, rig_->bytes() / kSegment);
        const RigCell cell(rig_, kSegment, count, copier.path);
        rig_->Prove(cell.in, cell.out, rig_->ByBatches(cell.in_batches, cell.out_batches));
        double moved = 0;
        const auto burst = Burst(copier, cell, direction);
        const absl::Time start = absl::Now();
        const double beside = Loop(load, launches, [&] {
          burst();
          moved += static_cast<double>(kSegment * count);
        });
        const double copied = moved / absl::ToDoubleSeconds(absl::Now() - start);
        const double slower = beside / alone;
        std::printf("    %-4s %-14s %7.2f %% slower, copies at %6.1f GB/s\n", where, copier.name,
                    100 * (slower - 1), copied / 1e9);
        figures_->push_back({absl::StrCat("gpu.beside.", load.name, ".", where, ".", copier.name),
                             beside / launches * 1e3, "ms", slower, "alone"});
      }
    }
  }

 private:
  static constexpr uint64_t kSegment = 64 << 10;
  static constexpr uint64_t kMostSegments = 1024;

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
  std::function<void()> Burst(const Copier& copier, const RigCell& cell, CopyDirection direction) {
    if (!copier.rows) {
      return [this, &cell, direction] { rig_->Run(direction, cell.batches(direction)); };
    }
    // Not in the loop's stream: it would wait for it.
    auto rows =
        std::make_shared<RowCopies>(rig_, &own_stream_, direction, cell.segments(direction));
    rows->Run();  // Loading a kernel may wait for all that runs.
    return [rows] { rows->Run(); };
  }

  GpuRig* const rig_;
  GpuFigures* const figures_;
  GpuStream own_stream_;
};

}  // namespace

void MeasureInterference(GpuRig* rig, GpuFigures* figures) {
  if (rig->emulated()) {
    std::printf("\nNOT MEASURED: a GEMM and a memory loop beside copies: they need a GPU\n");
    return;
  }
  std::printf("\nan engine's kernels beside copies of 64 KiB segments at full rate\n");
  const bool small = rig->bytes() < uint64_t{256} << 20;
  Interference interference(rig, figures);
  {
    GemmLoad gemm(&rig->stream(), small ? kGemmTile : 8192);
    interference.Measure({"gemm", "TFLOP/s", gemm.work() / 1e12, [&] { gemm.Launch(); }});
  }
  MemoryLoad memory(&rig->stream(), small ? uint64_t{1} << 20 : uint64_t{256} << 20);
  interference.Measure({"memory", "GB/s", memory.work() / 1e9, [&] { memory.Launch(); }});
}

#endif

}  // namespace kvtier::bench
