// The fake GPU itself, its contexts and its memory. A handle is a memfd; what is mapped
// for the device lies in host memory, kDeviceSide below the device's address.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
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

namespace kvtier::testing::fake_cuda {
namespace {

constexpr uint64_t kGpuBytes = uint64_t{1} << 37;

struct Memory {
  std::mutex mu;
  // What the device sees, by the host's address: registered, allocated and mapped.
  std::map<const std::byte*, uint64_t> seen;
  std::set<const std::byte*> on_device;  // Of those, the GPU's own memory.
  uint64_t registered = 0;
  uint64_t fail_registration_in = 0;
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
void* DeviceSide(const void* host) {
  return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(host) + kDeviceSide);
}

void* HostAddress(CUdeviceptr device) { return reinterpret_cast<void*>(device - kDeviceSide); }
// NOLINTEND(performance-no-int-to-ptr)

// Every call that works on the GPU needs its context.
cudaError_t InContext() {
  KVT_CHECK(current == kPrimary);
  return Lost();
}

CUresult DriverInContext() { return static_cast<CUresult>(InContext()); }

void AddOnDevice(const void* host, uint64_t bytes) {
  AddRegistered(host, bytes);
  const std::lock_guard lock(memory().mu);
  memory().on_device.insert(static_cast<const std::byte*>(host));
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
CUresult GetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
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

CUresult GetGranularity(size_t* bytes, const CUmemAllocationProp*,
                        CUmemAllocationGranularity_flags) {
  *bytes = uint64_t{2} << 20;
  return DriverInContext();
}
CUresult AddressReserve(CUdeviceptr* start, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* const at =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *start = reinterpret_cast<CUdeviceptr>(DeviceSide(at));
  return DriverInContext();
}
CUresult AddressFree(CUdeviceptr start, size_t bytes) {
  KVT_CHECK(munmap(HostAddress(start), bytes) == 0);
  return DriverInContext();
}
CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                unsigned long long) {
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
CUresult Export(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                unsigned long long) {
  *static_cast<int*>(out) = dup(static_cast<int>(handle));
  return DriverInContext();
}
CUresult Import(CUmemGenericAllocationHandle* handle, void* descriptor, CUmemAllocationHandleType) {
  const int fd = static_cast<int>(reinterpret_cast<uintptr_t>(descriptor));
  if (SizeOf(fd) == 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<CUmemGenericAllocationHandle>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return DriverInContext();
}
CUresult Map(CUdeviceptr at, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  const int fd = static_cast<int>(handle);
  if (SizeOf(fd) != bytes) return CUDA_ERROR_INVALID_VALUE;
  KVT_CHECK(mmap(HostAddress(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
  return DriverInContext();
}
CUresult Unmap(CUdeviceptr at, size_t bytes) {
  RemoveRegistered(HostAddress(at));
  KVT_CHECK(mmap(HostAddress(at), bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
  return DriverInContext();
}
CUresult SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc*, size_t) {
  KVT_CHECK(mprotect(HostAddress(at), bytes, PROT_READ | PROT_WRITE) == 0);
  AddOnDevice(HostAddress(at), bytes);
  return DriverInContext();
}

// What the GPU sees there; nullopt: nothing.
std::optional<std::pair<const std::byte*, uint64_t>> SeenAt(CUdeviceptr at) {
  const auto* const host = static_cast<const std::byte*>(HostAddress(at));
  const std::lock_guard lock(memory().mu);
  const auto after = memory().seen.upper_bound(host);
  if (after == memory().seen.begin()) return std::nullopt;
  const auto found = *std::prev(after);
  if (host >= found.first + found.second) return std::nullopt;
  return found;
}
CUresult PointerAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  const auto seen = SeenAt(at);
  if (!seen) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(memory().mu);
  const bool on_device = memory().on_device.contains(seen->first);
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    *static_cast<unsigned*>(data) = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  } else {
    KVT_CHECK(attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    *static_cast<int*>(data) = 0;
  }
  return DriverInContext();
}
CUresult AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  const auto seen = SeenAt(at);
  if (!seen) return CUDA_ERROR_NOT_FOUND;
  *base = reinterpret_cast<CUdeviceptr>(DeviceSide(seen->first));
  *bytes = seen->second;
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

std::byte* HostSide(const void* device) {
  const auto* const host =
      static_cast<const std::byte*>(HostAddress(reinterpret_cast<CUdeviceptr>(device)));
  const std::lock_guard lock(memory().mu);
  const auto after = memory().seen.upper_bound(host);
  KVT_CHECK(after != memory().seen.begin());
  const auto& [begin, bytes] = *std::prev(after);
  KVT_CHECK(host < begin + bytes);
  return const_cast<std::byte*>(host);
}

bool LosesWrite(const char* call, const void* device) {
  static const char* const lost = std::getenv("KVTIER_FAKE_GPU_LOSES");
  if (lost == nullptr || std::strcmp(lost, call) != 0) return false;
  const auto seen = SeenAt(reinterpret_cast<CUdeviceptr>(device));
  const std::lock_guard lock(memory().mu);
  return seen && memory().on_device.contains(seen->first);
}

void AddRegistered(const void* host, uint64_t bytes) {
  const std::lock_guard lock(memory().mu);
  KVT_CHECK(memory().seen.emplace(static_cast<const std::byte*>(host), bytes).second);
}

void RemoveRegistered(const void* host) {
  const std::lock_guard lock(memory().mu);
  KVT_CHECK(memory().seen.erase(static_cast<const std::byte*>(host)) == 1);
  memory().on_device.erase(static_cast<const std::byte*>(host));
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
  void* const host = std::calloc(1, bytes);
  fake::AddOnDevice(host, bytes);
  *device = fake::DeviceSide(host);
  return fake::InContext();
}
cudaError_t cudaFree(void* device) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  std::byte* const host = fake::HostSide(device);
  fake::RemoveRegistered(host);
  std::free(host);
  return fake::InContext();
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  KVT_CHECK(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost);
  if (kind == cudaMemcpyHostToDevice) {
    std::memcpy(fake::HostSide(to), from, bytes);
  } else {
    std::memcpy(to, fake::HostSide(from), bytes);
  }
  return fake::InContext();
}
cudaError_t cudaHostAlloc(void** host, size_t bytes, unsigned int) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  *host = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  fake::AddRegistered(*host, bytes);
  return fake::InContext();
}
cudaError_t cudaFreeHost(void* host) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  fake::RemoveRegistered(host);
  std::free(host);
  return fake::InContext();
}
cudaError_t cudaHostRegister(void* host, size_t bytes, unsigned int) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  {
    const std::lock_guard lock(fake::memory().mu);
    uint64_t& fail_in = fake::memory().fail_registration_in;
    const bool fails = fail_in == 1;
    if (fail_in > 0) --fail_in;
    if (fails) return fake::Answer(cudaErrorMemoryAllocation);
    fake::memory().registered += bytes;
  }
  fake::AddRegistered(host, bytes);
  return fake::InContext();
}
cudaError_t cudaHostUnregister(void* host) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  {
    const std::lock_guard lock(fake::memory().mu);
    fake::memory().registered -= fake::memory().seen.at(static_cast<std::byte*>(host));
  }
  fake::RemoveRegistered(host);
  return fake::InContext();
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int) {
  *device = fake::DeviceSide(host);
  (void)fake::HostSide(*device);
  return fake::InContext();
}
