// CudaDriver is what we call of CUDA's driver and the runtime does not wrap. Every call
// is looked up at run time: no program of ours links the driver's library, so each
// starts on a machine without one.
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

// What `call`, of the runtime, answered; clears what is not sticky, or an unrelated later
// call would report it. cudaSuccess: OK; no memory: kResourceExhausted; else kUnavailable.
absl::Status CudaStatus(const char* call, cudaError_t error);

// An engine that captures a graph keeps CUDA from answering: nothing is known.
constexpr bool IsOfCapture(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureImplicit;
}

// False: something runs in the stream, or nothing is known. CUDA's error that ended it: true.
bool IsQuiet(cudaStream_t stream);

struct CudaDriver {
  // Errors: kUnavailable, no driver, or one that has not all of this.
  static absl::StatusOr<CudaDriver> Find();
  // As CudaStatus().
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

// The context of one GPU in this process: the one that the runtime, and the engine with
// it, uses. It stays until the process ends, as the runtime's always does.
class CudaContext {
 public:
  // Makes it, some hundred MiB of the GPU's memory, unless it is there. The thread's own
  // context stays what it was. Errors: kUnavailable, no such GPU, or the driver's.
  static absl::StatusOr<CudaContext> Open(const CudaDriver& driver, int ordinal);
  CUdevice gpu() const { return gpu_; }
  // Errors: kUnavailable, the GPU is without memory that can be exported, or words that
  // streams can wait for.
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

// Makes the context the thread's own, and the one before it again at its end: an engine's
// thread keeps the GPU it chose. (cudaSetDevice would not do: giving back "GPU 0" of a
// thread that never chose makes a context there.)
//
// In the capture mode "relaxed": while an engine captures a graph in CUDA's mode "global",
// as torch does, a query, an allocation or a registration on any other thread would fail,
// and end the capture. Ours touch no stream that captures.
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

// Whether all of the range, by the device's addresses, is memory of the context's GPU:
// allocated, or mapped piece behind piece. Errors: kInvalidArgument, it is not;
// kUnavailable, the driver's.
absl::Status CheckDeviceMemory(const CudaDriver& driver, const CudaContext& context,
                               std::span<const std::byte> range);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_DRIVER_H_
