// CudaDriver holds the calls of CUDA's driver API that we need and the runtime does not wrap. Every
// call is looked up at run time. No program of ours links the driver's library, so each starts on a
// machine without one.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_DRIVER_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_DRIVER_H_

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvtier {

// Converts the result of `call`, a call of the runtime, and clears an error that is not sticky, as
// an unrelated later call would report it. cudaSuccess: OK; no memory: kResourceExhausted; else
// kUnavailable.
absl::Status CudaStatus(const char* call, cudaError_t error);

// Returns whether the error only says that an engine captures a graph, which keeps CUDA from
// answering.
constexpr bool IsOfCapture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureImplicit;
}

// Returns false if something runs in the stream, or CUDA does not tell because an engine captures a
// graph. Returns true also if a CUDA error ended its work.
bool IsQuiet(cudaStream_t stream);

struct CudaDriver {
  // Looks the calls up. Errors: kUnavailable, no driver, or one that lacks some of the calls.
  static absl::StatusOr<CudaDriver> Find();
  // Converts a result, as CudaStatus().
  absl::Status Status(const char* call, CUresult error) const;

  PFN_cuGetErrorName_v6000 error_name = nullptr;
  PFN_cuDeviceGet_v2000 device = nullptr;
  PFN_cuDeviceGetAttribute_v2000 attribute = nullptr;

  PFN_cuCtxGetCurrent_v4000 current_context = nullptr;
  PFN_cuCtxSetCurrent_v4000 set_context = nullptr;
  PFN_cuCtxPushCurrent_v4000 push_context = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop_context = nullptr;

  PFN_cuMemGetAllocationGranularity_v10020 granularity = nullptr;
  PFN_cuMemAddressReserve_v10020 reserve = nullptr;
  PFN_cuMemAddressFree_v10020 free_addresses = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
  PFN_cuMemExportToShareableHandle_v10020 export_handle = nullptr;
  PFN_cuMemImportFromShareableHandle_v10020 import_handle = nullptr;

  PFN_cuPointerGetAttribute_v4000 pointer_attribute = nullptr;
  PFN_cuMemGetAddressRange_v3020 address_range = nullptr;

  PFN_cuStreamWriteValue64_v11070 write_word = nullptr;
  PFN_cuStreamWaitValue64_v11070 wait_word = nullptr;
};

// CudaContext is the context of one GPU in this process: the one that the CUDA runtime uses, and so
// does an engine. The runtime keeps it until the process ends.
class CudaContext {
 public:
  // Opens the context. If there is none it is made, which takes some hundred MiB of GPU memory. The
  // calling thread's current context stays the same. Errors: kUnavailable, no such GPU, or the
  // driver's.
  static absl::StatusOr<CudaContext> Open(const CudaDriver& driver, int ordinal);
  CUdevice gpu() const { return gpu_; }
  // Returns kUnavailable if the GPU lacks exportable memory, or words that streams can wait for.
  absl::Status CheckAbilities() const;

 private:
  friend class CudaScope;
  absl::Status CheckAttribute(CUdevice_attribute attribute, const char* what) const;
  CudaContext(const CudaDriver& driver, CUdevice gpu, CUcontext context)
      : driver_(driver), gpu_(gpu), context_(context) {}
  CudaDriver driver_;
  CUdevice gpu_;
  CUcontext context_;
};

// CudaScope makes the context the thread's current one, and restores the previous one at its end,
// so an engine's thread keeps the GPU that it chose. (cudaSetDevice would not do: restoring "GPU 0"
// on a thread that never chose would make a context there.)
//
// The scope uses the capture mode "relaxed". While an engine captures a graph in CUDA's mode
// "global", as torch does, a query, an allocation or a registration on any other thread would
// otherwise fail and end the capture. Our calls touch no stream that captures.
class CudaScope {
 public:
  explicit CudaScope(const CudaContext& context);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  const CudaContext& context_;
  bool entered_;
  cudaStreamCaptureMode before_ = cudaStreamCaptureModeRelaxed;
};

// Checks that the whole range, in the device's addresses, is memory of the context's GPU: one
// allocation, or adjacent mappings. Errors: kInvalidArgument, it is not; kUnavailable, the
// driver's.
absl::Status CheckDeviceMemory(const CudaDriver& driver, const CudaContext& context,
                               std::span<const std::byte> range);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_DRIVER_H_
