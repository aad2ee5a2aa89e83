#include "tier_gpu/device/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Looks up one call. `version` is the CUDA version that introduced the signature `Call`.
template <typename Call>
absl::Status FindCall(const char* name, unsigned version, Call* call) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  KVT_RETURN_IF_ERROR(CudaStatus(
      name, cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result)));
  if (found == nullptr || result != cudaDriverEntryPointSuccess) {
    return absl::UnavailableError(absl::StrCat("CUDA: the driver has no ", name, "; update it"));
  }
  *call = reinterpret_cast<Call>(found);
  return absl::OkStatus();
}

}  // namespace

absl::Status CudaStatus(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string text = absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

bool IsQuiet(cudaStream_t stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error != cudaErrorNotReady && !IsOfCapture(error);
}

absl::Status CudaDriver::Status(const char* call, CUresult error) const {
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  if (error_name(error, &name) != CUDA_SUCCESS || name == nullptr) name = "an unknown error";
  const std::string text = absl::StrCat("CUDA driver: ", call, ": ", name);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

absl::StatusOr<CudaDriver> CudaDriver::Find() {
  // This call comes first, because its error text says that there is no driver.
  int count = 0;
  KVT_RETURN_IF_ERROR(CudaStatus("cudaGetDeviceCount", cudaGetDeviceCount(&count)));
  CudaDriver calls;
  KVT_RETURN_IF_ERROR(FindCall("cuGetErrorName", 6000, &calls.error_name));
  KVT_RETURN_IF_ERROR(FindCall("cuDeviceGet", 2000, &calls.device));
  KVT_RETURN_IF_ERROR(FindCall("cuDeviceGetAttribute", 2000, &calls.attribute));
  KVT_RETURN_IF_ERROR(FindCall("cuCtxGetCurrent", 4000, &calls.current_context));
  KVT_RETURN_IF_ERROR(FindCall("cuCtxSetCurrent", 4000, &calls.set_context));
  KVT_RETURN_IF_ERROR(FindCall("cuCtxPushCurrent", 4000, &calls.push_context));
  KVT_RETURN_IF_ERROR(FindCall("cuCtxPopCurrent", 4000, &calls.pop_context));
  KVT_RETURN_IF_ERROR(FindCall("cuMemGetAllocationGranularity", 10020, &calls.granularity));
  KVT_RETURN_IF_ERROR(FindCall("cuMemAddressReserve", 10020, &calls.reserve));
  KVT_RETURN_IF_ERROR(FindCall("cuMemAddressFree", 10020, &calls.free_addresses));
  KVT_RETURN_IF_ERROR(FindCall("cuMemCreate", 10020, &calls.create));
  KVT_RETURN_IF_ERROR(FindCall("cuMemRelease", 10020, &calls.release));
  KVT_RETURN_IF_ERROR(FindCall("cuMemMap", 10020, &calls.map));
  KVT_RETURN_IF_ERROR(FindCall("cuMemUnmap", 10020, &calls.unmap));
  KVT_RETURN_IF_ERROR(FindCall("cuMemSetAccess", 10020, &calls.set_access));
  KVT_RETURN_IF_ERROR(FindCall("cuMemExportToShareableHandle", 10020, &calls.export_handle));
  KVT_RETURN_IF_ERROR(FindCall("cuMemImportFromShareableHandle", 10020, &calls.import_handle));
  KVT_RETURN_IF_ERROR(FindCall("cuPointerGetAttribute", 4000, &calls.pointer_attribute));
  KVT_RETURN_IF_ERROR(FindCall("cuMemGetAddressRange", 3020, &calls.address_range));
  KVT_RETURN_IF_ERROR(FindCall("cuStreamWriteValue64", 11070, &calls.write_word));
  KVT_RETURN_IF_ERROR(FindCall("cuStreamWaitValue64", 11070, &calls.wait_word));
  return calls;
}

absl::StatusOr<CudaContext> CudaContext::Open(const CudaDriver& driver, int ordinal) {
  int count = 0;
  KVT_RETURN_IF_ERROR(CudaStatus("cudaGetDeviceCount", cudaGetDeviceCount(&count)));
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(
        absl::StrCat("CUDA: there is no GPU ", ordinal, ", as this machine has ", count));
  }
  CUdevice gpu = 0;
  KVT_RETURN_IF_ERROR(driver.Status("cuDeviceGet", driver.device(&gpu, ordinal)));
  CUcontext before = nullptr;
  KVT_RETURN_IF_ERROR(driver.Status("cuCtxGetCurrent", driver.current_context(&before)));
  // Since CUDA 12, this call also creates the context.
  KVT_RETURN_IF_ERROR(CudaStatus("cudaSetDevice", cudaSetDevice(ordinal)));
  CUcontext context = nullptr;
  absl::Status made = driver.Status("cuCtxGetCurrent", driver.current_context(&context));
  made.Update(driver.Status("cuCtxSetCurrent", driver.set_context(before)));
  KVT_RETURN_IF_ERROR(made);
  return CudaContext(driver, gpu, context);
}

absl::Status CheckDeviceMemory(const CudaDriver& driver, const CudaContext& context,
                               std::span<const std::byte> range) {
  const CudaScope scope(context);
  const auto begin = reinterpret_cast<CUdeviceptr>(range.data());
  const CUdeviceptr end = begin + range.size();
  // The driver reports an allocation as one range, and each mapped handle as a range of its own.
  for (CUdeviceptr at = begin; at < end;) {
    unsigned type = 0;
    int gpu = -1;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult told = driver.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    if (told == CUDA_SUCCESS) {
      told = driver.pointer_attribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
    }
    if (told == CUDA_SUCCESS) told = driver.address_range(&base, &bytes, at);
    const bool known = told != CUDA_ERROR_INVALID_VALUE && told != CUDA_ERROR_NOT_FOUND;
    if (known) KVT_RETURN_IF_ERROR(driver.Status("cuMemGetAddressRange", told));
    // Device ordinals are the GPU numbers that cuDeviceGet() returns.
    if (!known || type != CU_MEMORYTYPE_DEVICE || gpu != context.gpu() || base > at ||
        bytes <= at - base) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CUDA: range of ", range.size(), " bytes at ", begin, " must be memory of GPU ",
          context.gpu(), " and is not from byte ", at - begin, " on"));
    }
    at = base + bytes;
  }
  return absl::OkStatus();
}

// If the context is lost it cannot be entered, and the calls inside report that.
CudaScope::CudaScope(const CudaContext& context)
    : context_(context), entered_(context.driver_.push_context(context.context_) == CUDA_SUCCESS) {
  if (entered_) (void)cudaThreadExchangeStreamCaptureMode(&before_);
}

CudaScope::~CudaScope() {
  if (!entered_) return;
  (void)cudaThreadExchangeStreamCaptureMode(&before_);
  CUcontext popped = nullptr;
  (void)context_.driver_.pop_context(&popped);
}

absl::Status CudaContext::CheckAbilities() const {
  KVT_RETURN_IF_ERROR(CheckAttribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                     "memory that is mapped by handles"));
  KVT_RETURN_IF_ERROR(
      CheckAttribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                     "memory that can be exported as a file descriptor"));
  return CheckAttribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                        "words that a stream can wait for");
}

absl::Status CudaContext::CheckAttribute(CUdevice_attribute attribute, const char* what) const {
  int value = 0;
  KVT_RETURN_IF_ERROR(
      driver_.Status("cuDeviceGetAttribute", driver_.attribute(&value, attribute, gpu_)));
  if (value != 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("CUDA: this GPU has no ", what));
}

}  // namespace kvtier
