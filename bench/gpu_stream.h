// The GPU as the benchmark itself uses it, beside the device seam: memory, a stream and
// time on it. Aborts, with CUDA's words, on any error: a benchmark has nobody to tell.
// Built only where CUDA is (KVTIER_HAVE_CUDA), and needs none of its headers.
#ifndef KVTIER_BENCH_GPU_STREAM_H_
#define KVTIER_BENCH_GPU_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvtier::bench {

// `what` answered `error`, a cudaError_t; aborts unless it is 0.
void CheckCuda(const char* what, int error);

// From here on this thread works on this GPU. REQUIRES: it is there.
void UseGpu(int ordinal);
// Multiprocessors of the GPU in use.
uint32_t GpuProcessors();
// Where the GPU in use sees page-locked host memory.
std::byte* OnGpu(std::byte* host);

// Between the GPU's memory and the host's; wait until all bytes are there. REQUIRES:
// nothing that runs uses them.
void WriteToGpu(std::byte* to, std::span<const std::byte> from);
void ReadFromGpu(const std::byte* from, std::span<std::byte> into);

// Memory of the GPU in use.
class GpuMemory {
 public:
  explicit GpuMemory(uint64_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// One thread at a time.
class GpuStream {
 public:
  GpuStream();
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  void* handle() const { return stream_; }  // cudaStream_t
  // Either address is the GPU's memory or page-locked host memory, as the GPU sees it.
  void Copy(std::byte* destination, const std::byte* source, uint64_t bytes);
  // Each byte of the GPU's memory becomes `value`.
  void Fill(std::byte* at, int value, uint64_t bytes);
  // The next two times are taken where they stand in the stream.
  void Begin();
  void End();
  // Everything up to End() has ended.
  bool Ended() const;
  // From Begin() to End(), which it waits for.
  double Seconds();
  // Until all that was enqueued has ended.
  void Wait();

 private:
  void* stream_ = nullptr;
  void* begin_ = nullptr;  // cudaEvent_t
  void* end_ = nullptr;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_GPU_STREAM_H_
