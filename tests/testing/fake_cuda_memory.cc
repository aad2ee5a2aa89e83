// The fake GPU itself, its contexts and its memory. A handle is a memfd. Memory that is mapped for
// the device lies in host memory, kDeviceSide below the device's address.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"
#include "tests/testing/fake_cuda_ranges.h"

namespace kvtier::testing::fake_cuda {
namespace {

constexpr uint64_t kGpuBytes = uint64_t{1} << 37;

struct Memory {
  std::mutex mu;
  uint64_t registered = 0;
  uint64_t fail_registration_in = 0;
  // Attributes that cuDeviceGetAttribute() was asked for, and the one that the GPU lacks.
  std::set<CUdevice_attribute> asked;
  std::optional<CUdevice_attribute> lacks;
};

Memory& memory() {
  static Memory one;
  return one;
}

thread_local CUcontext current = nullptr;
thread_local cudaError_t last_error = cudaSuccess;
int primary = 0;
std::atomic<int> driver_version = kDriverVersion;
CUcontext const kPrimary = reinterpret_cast<CUcontext>(&primary);

// NOLINTBEGIN(performance-no-int-to-ptr): a device's address is a number to the host.
const void* AsPointer(CUdeviceptr device) { return reinterpret_cast<const void*>(device); }
// NOLINTEND(performance-no-int-to-ptr)
std::byte* HostOf(CUdeviceptr device) { return HostAddress(AsPointer(device)); }

// Aborts unless the thread has the GPU's context, which every call that works on the GPU needs.
cudaError_t InContext() {
  KVT_CHECK(current == kPrimary);
  return Lost();
}

CUresult DriverInContext() { return static_cast<CUresult>(InContext()); }

// Unit of the driver's allocations, and the properties that CudaRegion asks for.
constexpr uint64_t kGranularity = uint64_t{2} << 20;
bool IsGranular(uint64_t value) { return value > 0 && value % kGranularity == 0; }

bool IsOnThisGpu(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id == 0;
}
bool IsExportable(const CUmemAllocationProp& properties) {
  return properties.type == CU_MEM_ALLOCATION_TYPE_PINNED && IsOnThisGpu(properties.location) &&
         properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

uint64_t SizeOf(int descriptor) {
  struct stat facts{};
  const bool sealable = fcntl(descriptor, F_GET_SEALS) >= 0;
  return fstat(descriptor, &facts) == 0 && sealable ? facts.st_size : 0;
}

CUresult ErrorName(CUresult, const char** name) {
  *name = "an error of the fake's";
  return CUDA_SUCCESS;
}
CUresult GetDevice(CUdevice* gpu, int ordinal) {
  *gpu = ordinal;
  return CUDA_SUCCESS;
}
CUresult GetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const std::lock_guard lock(memory().mu);
  memory().asked.insert(attribute);
  *value = memory().lacks == attribute ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult GetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult SetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
thread_local std::vector<CUcontext> below;
CUresult PushCurrent(CUcontext context) {
  below.push_back(std::exchange(current, context));
  return CUDA_SUCCESS;
}
CUresult PopCurrent(CUcontext* context) {
  KVT_CHECK(!below.empty());
  *context = std::exchange(current, below.back());
  below.pop_back();
  return CUDA_SUCCESS;
}

CUresult GetGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                        CUmemAllocationGranularity_flags) {
  KVT_CHECK(IsExportable(*properties));
  *bytes = kGranularity;
  return DriverInContext();
}
CUresult AddressReserve(CUdeviceptr* start, size_t bytes, size_t alignment, CUdeviceptr,
                        unsigned long long) {
  KVT_CHECK(WasAsked(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
  if (!IsGranular(bytes) || !IsGranular(alignment)) return CUDA_ERROR_INVALID_VALUE;
  // Reserves more than is asked for, so that the start can be aligned; the rest stays reserved.
  void* const at = mmap(nullptr, bytes + alignment, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto aligned = (reinterpret_cast<uint64_t>(at) + alignment - 1) / alignment * alignment;
  *start = aligned + kDeviceSide;
  return DriverInContext();
}
CUresult AddressFree(CUdeviceptr start, size_t bytes) {
  KVT_CHECK(munmap(HostOf(start), bytes) == 0);
  return DriverInContext();
}
CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long) {
  KVT_CHECK(WasAsked(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
  if (!IsExportable(*properties) || !IsGranular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kGpuBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("fake-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  KVT_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  return DriverInContext();
}
CUresult Release(CUmemGenericAllocationHandle handle) {
  KVT_CHECK(close(static_cast<int>(handle)) == 0);
  return DriverInContext();
}
CUresult Export(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(out) = dup(static_cast<int>(handle));
  return DriverInContext();
}
CUresult Import(CUmemGenericAllocationHandle* handle, void* descriptor,
                CUmemAllocationHandleType type) {
  const int fd = static_cast<int>(reinterpret_cast<uintptr_t>(descriptor));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || SizeOf(fd) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return DriverInContext();
}
CUresult Map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  const int fd = static_cast<int>(handle);
  if (SizeOf(fd) != bytes) return CUDA_ERROR_NOT_SUPPORTED;  // As driver R580 does.
  if (offset != 0 || at % kGranularity != 0 || !AddRange(HostOf(at), bytes, RangeKind::kMapped)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  KVT_CHECK(mmap(HostOf(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
  return DriverInContext();
}
CUresult Unmap(CUdeviceptr at, size_t bytes) {
  KVT_CHECK(RemoveRange(HostOf(at), RangeKind::kMapped) == bytes);
  KVT_CHECK(mmap(HostOf(at), bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
  return DriverInContext();
}
CUresult SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (count != 1 || !IsOnThisGpu(access->location) ||
      access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !AllowAccess(HostOf(at), bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  KVT_CHECK(mprotect(HostOf(at), bytes, PROT_READ | PROT_WRITE) == 0);
  return DriverInContext();
}

CUresult PointerAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  const auto seen = RangeAt(AsPointer(at));
  if (!seen) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    *static_cast<unsigned*>(data) =
        IsOnDevice(seen->kind) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  } else {
    KVT_CHECK(attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    *static_cast<int*>(data) = 0;
  }
  return DriverInContext();
}
CUresult AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  const auto seen = RangeAt(AsPointer(at));
  if (!seen) return CUDA_ERROR_NOT_FOUND;
  *base = reinterpret_cast<CUdeviceptr>(DeviceSide(seen->begin));
  *bytes = seen->bytes;
  return DriverInContext();
}

const std::map<std::string, void*>& Calls() {
  static const std::map<std::string, void*> calls = {
      {"cuGetErrorName", reinterpret_cast<void*>(&ErrorName)},
      {"cuDeviceGet", reinterpret_cast<void*>(&GetDevice)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&GetAttribute)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(&GetCurrent)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(&SetCurrent)},
      {"cuCtxPushCurrent", reinterpret_cast<void*>(&PushCurrent)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&PopCurrent)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&GetGranularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&AddressReserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&AddressFree)},
      {"cuMemCreate", reinterpret_cast<void*>(&Create)},
      {"cuMemRelease", reinterpret_cast<void*>(&Release)},
      {"cuMemMap", reinterpret_cast<void*>(&Map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&Unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&SetAccess)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(&Export)},
      {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(&Import)},
      {"cuPointerGetAttribute", reinterpret_cast<void*>(&PointerAttribute)},
      {"cuMemGetAddressRange", reinterpret_cast<void*>(&AddressRange)},
      {"cuStreamWriteValue64", reinterpret_cast<void*>(&WriteWord)},
      {"cuStreamWaitValue64", reinterpret_cast<void*>(&WaitForWord)}};
  return calls;
}

}  // namespace

cudaError_t Answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

std::byte* HostSide(const void* device) { return Touched(device, 1); }

bool LosesWrite(const char* call, const void* device) {
  static const char* const lost = std::getenv("KVTIER_FAKE_GPU_LOSES");
  if (lost == nullptr || std::strcmp(lost, call) != 0) return false;
  const auto seen = RangeAt(device);
  return seen && IsOnDevice(seen->kind);
}

bool WasAsked(CUdevice_attribute attribute) {
  const std::lock_guard lock(memory().mu);
  return memory().asked.contains(attribute);
}

void SetLacking(std::optional<CUdevice_attribute> attribute) {
  const std::lock_guard lock(memory().mu);
  memory().lacks = attribute;
}

void SetDriverVersion(int version) { driver_version = version; }

int DriverVersion() { return driver_version; }

uint64_t RegisteredBytes() {
  const std::lock_guard lock(memory().mu);
  return memory().registered;
}

void FailRegistration(uint64_t nth) {
  const std::lock_guard lock(memory().mu);
  memory().fail_registration_in = nth;
}

}  // namespace kvtier::testing::fake_cuda

namespace fake = kvtier::testing::fake_cuda;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake::DriverVersion();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  fake::current = fake::kPrimary;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "fake GPU");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return fake::InContext();
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake's"; }
cudaError_t cudaGetLastError() { return std::exchange(fake::last_error, cudaSuccess); }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** call, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const auto found = fake::Calls().find(name);
  const bool there = found != fake::Calls().end();
  *call = there ? found->second : nullptr;
  *result = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** device, size_t bytes) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  void* const host = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(host, 0xa5, bytes);  // Finds code that relies on zeros.
  KVT_CHECK(fake::AddRange(host, bytes, fake::RangeKind::kAllocated));
  *device = fake::DeviceSide(host);
  return fake::InContext();
}
cudaError_t cudaFree(void* device) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  std::byte* const host = fake::HostAddress(device);
  fake::RemoveRange(host, fake::RangeKind::kAllocated);
  std::free(host);
  return fake::InContext();
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  KVT_CHECK(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost);
  const void* const device = kind == cudaMemcpyHostToDevice ? to : from;
  const auto seen = fake::RangeAt(device);
  std::byte* const there = fake::InOneRange(device, bytes);
  if (there == nullptr || !fake::IsOnDevice(seen->kind)) {
    return fake::Answer(cudaErrorInvalidValue);
  }
  if (kind == cudaMemcpyHostToDevice) {
    std::memcpy(there, from, bytes);
  } else {
    std::memcpy(to, there, bytes);
  }
  return fake::InContext();
}
cudaError_t cudaHostAlloc(void** host, size_t bytes, unsigned int flags) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  KVT_CHECK(flags == (cudaHostAllocPortable | cudaHostAllocMapped));
  *host = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  KVT_CHECK(fake::AddRange(*host, bytes, fake::RangeKind::kHostAllocated));
  return fake::InContext();
}
cudaError_t cudaFreeHost(void* host) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  fake::RemoveRange(host, fake::RangeKind::kHostAllocated);
  std::free(host);
  return fake::InContext();
}
cudaError_t cudaHostRegister(void* host, size_t bytes, unsigned int flags) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  KVT_CHECK(flags == (cudaHostRegisterPortable | cudaHostRegisterMapped));
  {
    const std::lock_guard lock(fake::memory().mu);
    uint64_t& fail_in = fake::memory().fail_registration_in;
    const bool fails = fail_in == 1;
    if (fail_in > 0) --fail_in;
    if (fails) return fake::Answer(cudaErrorMemoryAllocation);
  }
  if (!fake::AddRange(host, bytes, fake::RangeKind::kHostRegistered)) {
    return fake::Answer(cudaErrorHostMemoryAlreadyRegistered);
  }
  const std::lock_guard lock(fake::memory().mu);
  fake::memory().registered += bytes;
  return fake::InContext();
}
cudaError_t cudaHostUnregister(void* host) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  const uint64_t bytes = fake::RemoveRange(host, fake::RangeKind::kHostRegistered);
  const std::lock_guard lock(fake::memory().mu);
  fake::memory().registered -= bytes;
  return fake::InContext();
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int) {
  *device = fake::DeviceSide(host);
  const auto seen = fake::RangeAt(*device);
  if (!seen || fake::IsOnDevice(seen->kind)) return fake::Answer(cudaErrorInvalidValue);
  return fake::InContext();
}
