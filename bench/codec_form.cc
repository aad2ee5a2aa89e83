#include "bench/codec_form.h"

#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/check.h"
#ifdef KVTIER_HAVE_CUDA
#include "bench/gpu_stream.h"
#endif

namespace kvtier::bench {
namespace {

class HostForm final : public CodecForm {
 public:
  std::byte* Allocate(uint64_t bytes) override {
    memory_.push_back(MakeHostBytes(bytes));
    return memory_.back().get();
  }
  void Write(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void Read(const std::byte* from, std::span<std::byte> into) override {
    std::memcpy(into.data(), from, into.size());
  }
  double Run(CodecWay way, const kernels::CodecLaunch& launch) override {
    const absl::Time start = absl::Now();
    const int error =
        way == CodecWay::kEncode ? kernels::EncodeOnHost(launch) : kernels::DecodeOnHost(launch);
    KVT_CHECK(error == 0);
    return absl::ToDoubleSeconds(absl::Now() - start);
  }
  double Copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    const absl::Time start = absl::Now();
    std::memcpy(to, from, bytes);
    return absl::ToDoubleSeconds(absl::Now() - start);
  }
  uint32_t full_grid() const override { return 1; }

 private:
  std::vector<HostBytes> memory_;
};

#ifdef KVTIER_HAVE_CUDA

// Of 256 threads; a multiprocessor has room for so many of them, registers allowing.
constexpr uint32_t kThreadBlocksOfProcessor = 8;

class GpuForm final : public CodecForm {
 public:
  explicit GpuForm(GpuStream* stream) : stream_(stream) {}
  std::byte* Allocate(uint64_t bytes) override {
    memory_.push_back(std::make_unique<GpuMemory>(bytes));
    return memory_.back()->data();
  }
  void Write(std::byte* to, std::span<const std::byte> from) override { WriteToGpu(to, from); }
  void Read(const std::byte* from, std::span<std::byte> into) override { ReadFromGpu(from, into); }
  double Run(CodecWay way, const kernels::CodecLaunch& launch) override {
    kernels::CodecLaunch here = launch;
    here.stream = stream_->handle();
    stream_->Begin();
    CheckCuda("a codec's launch", way == CodecWay::kEncode ? kernels::EncodeOnDevice(here)
                                                           : kernels::DecodeOnDevice(here));
    stream_->End();
    return stream_->Seconds();
  }
  double Copy(std::byte* to, const std::byte* from, uint64_t bytes) override {
    stream_->Begin();
    stream_->Copy(to, from, bytes);
    stream_->End();
    return stream_->Seconds();
  }
  uint32_t full_grid() const override { return kThreadBlocksOfProcessor * GpuProcessors(); }

 private:
  GpuStream* const stream_;
  std::vector<std::unique_ptr<GpuMemory>> memory_;
};

#endif

}  // namespace

std::unique_ptr<CodecForm> CodecFormOf(GpuRig* rig) {
#ifdef KVTIER_HAVE_CUDA
  if (!rig->emulated()) return std::make_unique<GpuForm>(&rig->stream());
#endif
  KVT_CHECK(rig->emulated());
  return std::make_unique<HostForm>();
}

}  // namespace kvtier::bench
