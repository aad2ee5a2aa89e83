// CodecForm is where codecs run in the benchmark: the GPU's memory and the device form, or
// host memory and the reference.
#ifndef KVTIER_BENCH_CODEC_FORM_H_
#define KVTIER_BENCH_CODEC_FORM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/gpu_rig.h"
#include "kernels/codec.h"

namespace kvtier::bench {

enum class CodecWay : uint8_t { kEncode, kDecode };

class CodecForm {
 public:
  virtual ~CodecForm() = default;
  // At a multiple of 256; kept as long as the form.
  virtual std::byte* Allocate(uint64_t bytes) = 0;
  virtual void Write(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void Read(const std::byte* from, std::span<std::byte> into) = 0;
  // Seconds of each; aborts if the launch is refused. All memory is the form's.
  virtual double Run(CodecWay way, const kernels::CodecLaunch& launch) = 0;
  virtual double Copy(std::byte* to, const std::byte* from, uint64_t bytes) = 0;
  // Thread blocks that fill the form.
  virtual uint32_t full_grid() const = 0;

  template <typename T>
  T* AllocateList(size_t count) {
    return reinterpret_cast<T*>(Allocate(count * sizeof(T)));
  }
  template <typename T>
  std::vector<T> ReadList(const T* from, size_t count) {
    std::vector<T> list(count);
    Read(reinterpret_cast<const std::byte*>(from), std::as_writable_bytes(std::span(list)));
    return list;
  }
};

// The form of the rig's device: the reference where it is emulated.
std::unique_ptr<CodecForm> CodecFormOf(GpuRig* rig);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_CODEC_FORM_H_
