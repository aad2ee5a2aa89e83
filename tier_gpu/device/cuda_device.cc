#include "tier_gpu/device/cuda_device.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/event.h"
#include "core/status_macros.h"
#include "tier_gpu/device/copy_lane.h"

namespace kvtier {
namespace {

// One registration of 512 GiB or more fails on R580 drivers: its table of 4 KiB
// pages outgrows an int.
constexpr uint64_t kPinChunkBytes = uint64_t{16} << 30;

// A 2 MiB block takes about 40 us on PCIe 5.0 x16.
constexpr absl::Duration kPollInterval = absl::Microseconds(20);

absl::Status CudaError(const char* call, cudaError_t error) {
  // Clears what is not sticky, or an unrelated later call would report it.
  (void)cudaGetLastError();
  const std::string text = absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

absl::Status DriverError(const char* call, CUresult error) {
  const std::string text = absl::StrCat("CUDA driver: ", call, ": error ", error);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

// The driver's calls that the runtime does not wrap, found at run time.
struct DriverCalls {
  PFN_cuMemGetAllocationGranularity_v10020 get_granularity = nullptr;
  PFN_cuMemAddressReserve_v10020 reserve = nullptr;
  PFN_cuMemAddressFree_v10020 free_address = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
  PFN_cuMemExportToShareableHandle_v10020 export_handle = nullptr;
};

template <typename Call>
absl::Status FindCall(const char* name, Call* call) {
  constexpr unsigned kCuda10_2 = 10020;
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kCuda10_2, cudaEnableDefault, &result);
  if (error != cudaSuccess) return CudaError(name, error);
  if (found == nullptr || result != cudaDriverEntryPointSuccess) {
    return absl::UnavailableError(absl::StrCat("CUDA: the driver has no ", name));
  }
  *call = reinterpret_cast<Call>(found);
  return absl::OkStatus();
}

absl::StatusOr<DriverCalls> FindDriverCalls() {
  DriverCalls calls;
  KVT_RETURN_IF_ERROR(FindCall("cuMemGetAllocationGranularity", &calls.get_granularity));
  KVT_RETURN_IF_ERROR(FindCall("cuMemAddressReserve", &calls.reserve));
  KVT_RETURN_IF_ERROR(FindCall("cuMemAddressFree", &calls.free_address));
  KVT_RETURN_IF_ERROR(FindCall("cuMemCreate", &calls.create));
  KVT_RETURN_IF_ERROR(FindCall("cuMemRelease", &calls.release));
  KVT_RETURN_IF_ERROR(FindCall("cuMemMap", &calls.map));
  KVT_RETURN_IF_ERROR(FindCall("cuMemUnmap", &calls.unmap));
  KVT_RETURN_IF_ERROR(FindCall("cuMemSetAccess", &calls.set_access));
  KVT_RETURN_IF_ERROR(FindCall("cuMemExportToShareableHandle", &calls.export_handle));
  return calls;
}

class CudaRegion final : public DeviceRegion {
 public:
  static absl::StatusOr<std::unique_ptr<CudaRegion>> Create(const DriverCalls& driver, int ordinal,
                                                            uint64_t bytes) {
    auto region = absl::WrapUnique(new CudaRegion(driver, ordinal));
    KVT_RETURN_IF_ERROR(region->Allocate(bytes));
    return region;
  }
  ~CudaRegion() override;
  uint64_t bytes() const override { return bytes_; }
  int fd() const override { return fd_; }
  std::byte* address() const {
    return reinterpret_cast<std::byte*>(address_);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  CudaRegion(const DriverCalls& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  absl::Status Allocate(uint64_t bytes);

  const DriverCalls driver_;
  const int ordinal_;
  // Set by Allocate(), in this order; the destructor undoes those that were.
  uint64_t bytes_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
  int fd_ = -1;
};

absl::Status CudaRegion::Allocate(uint64_t bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal_};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity = 0;
  CUresult error = driver_.get_granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (error != CUDA_SUCCESS) return DriverError("cuMemGetAllocationGranularity", error);
  bytes_ = (bytes + granularity - 1) / granularity * granularity;

  error = driver_.create(&handle_, bytes_, &prop, 0);
  if (error != CUDA_SUCCESS) return DriverError("cuMemCreate", error);
  error = driver_.reserve(&address_, bytes_, granularity, 0, 0);
  if (error != CUDA_SUCCESS) return DriverError("cuMemAddressReserve", error);
  error = driver_.map(address_, bytes_, 0, handle_, 0);
  if (error != CUDA_SUCCESS) return DriverError("cuMemMap", error);
  mapped_ = true;
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  error = driver_.set_access(address_, bytes_, &access, 1);
  if (error != CUDA_SUCCESS) return DriverError("cuMemSetAccess", error);
  error = driver_.export_handle(&fd_, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (error != CUDA_SUCCESS) return DriverError("cuMemExportToShareableHandle", error);
  return absl::OkStatus();
}

// Nothing can be done about a driver that fails to take memory back, and after a
// lost device every call fails.
CudaRegion::~CudaRegion() {
  (void)cudaSetDevice(ordinal_);
  if (mapped_) (void)driver_.unmap(address_, bytes_);
  if (address_ != 0) (void)driver_.free_address(address_, bytes_);
  if (handle_ != 0) (void)driver_.release(handle_);
  if (fd_ >= 0) close(fd_);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(Executor* executor, int ordinal, std::string name, const DriverCalls& driver)
      : executor_(executor),
        ordinal_(ordinal),
        name_(std::move(name)),
        driver_(driver),
        lanes_{Lane(executor), Lane(executor)} {}
  ~CudaDevice() override;
  absl::Status CreateLanes();

  const std::string& name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<DeviceRegion>> CreateRegion(uint64_t bytes) override;
  absl::Status Pin(std::span<std::byte> host) override;
  Task<absl::Status> Copy(CopyDirection direction, DeviceRegion* region,
                          std::span<const CopySegment> segments) override;

 private:
  struct Lane {
    explicit Lane(Executor* executor) : line(executor) {}
    CopyLane line;
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;  // Of the batch whose turn it is.
  };
  // The lane's stream is empty but for batches whose tasks were destroyed, so
  // kMaxCopySegments fit into what a stream queues (about 1,000) without blocking.
  absl::Status Submit(const Lane& lane, CopyDirection direction, std::byte* memory,
                      std::span<const CopySegment> segments);
  // Makes the GPU current in this thread. Errors: kUnavailable, also when lost.
  absl::Status Enter();
  // Errors of copies are sticky in CUDA: after one, nothing works any more.
  absl::Status Lose(const char* call, cudaError_t error);

  Executor* const executor_;
  const int ordinal_;
  const std::string name_;
  const DriverCalls driver_;
  std::array<Lane, 2> lanes_;  // By CopyDirection.
  absl::Status state_;         // Not OK: lost, and why.
  std::vector<std::byte*> pinned_;
};

CudaDevice::~CudaDevice() {
  // Ignored as in ~CudaRegion. Destroying a stream waits for nothing;
  // unregistering waits for the copies that still use the memory.
  (void)cudaSetDevice(ordinal_);
  for (std::byte* chunk : pinned_) (void)cudaHostUnregister(chunk);
  for (const Lane& lane : lanes_) {
    if (lane.done != nullptr) (void)cudaEventDestroy(lane.done);
    if (lane.stream != nullptr) (void)cudaStreamDestroy(lane.stream);
  }
}

absl::Status CudaDevice::CreateLanes() {
  for (Lane& lane : lanes_) {
    cudaError_t error = cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return CudaError("cudaStreamCreateWithFlags", error);
    error = cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming);
    if (error != cudaSuccess) return CudaError("cudaEventCreateWithFlags", error);
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::Enter() {
  KVT_RETURN_IF_ERROR(state_);
  const cudaError_t error = cudaSetDevice(ordinal_);
  return error == cudaSuccess ? absl::OkStatus() : Lose("cudaSetDevice", error);
}

absl::Status CudaDevice::Lose(const char* call, cudaError_t error) {
  const absl::Status status = CudaError(call, error);
  state_ = absl::UnavailableError(absl::StrCat(name_, " is lost: ", std::string(status.message())));
  return state_;
}

absl::StatusOr<std::unique_ptr<DeviceRegion>> CudaDevice::CreateRegion(uint64_t bytes) {
  KVT_RETURN_IF_ERROR(Enter());
  return CudaRegion::Create(driver_, ordinal_, bytes);
}

absl::Status CudaDevice::Pin(std::span<std::byte> host) {
  KVT_RETURN_IF_ERROR(Enter());
  const size_t before = pinned_.size();
  while (!host.empty()) {
    const auto chunk = host.first(std::min<uint64_t>(host.size(), kPinChunkBytes));
    const cudaError_t error =
        cudaHostRegister(chunk.data(), chunk.size(), cudaHostRegisterPortable);
    if (error != cudaSuccess) {
      for (; pinned_.size() > before; pinned_.pop_back()) {
        (void)cudaHostUnregister(pinned_.back());
      }
      const absl::Status status = CudaError("cudaHostRegister", error);
      return absl::ResourceExhaustedError(
          absl::StrCat("pinning ", chunk.size(), " bytes: ", std::string(status.message())));
    }
    pinned_.push_back(chunk.data());
    host = host.subspan(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::Submit(const Lane& lane, CopyDirection direction, std::byte* memory,
                                std::span<const CopySegment> segments) {
  for (const CopySegment& segment : segments) {
    std::byte* const device = memory + segment.device_offset;
    const cudaError_t error = direction == CopyDirection::kHostToDevice
                                  ? cudaMemcpyAsync(device, segment.host, segment.bytes,
                                                    cudaMemcpyHostToDevice, lane.stream)
                                  : cudaMemcpyAsync(segment.host, device, segment.bytes,
                                                    cudaMemcpyDeviceToHost, lane.stream);
    if (error != cudaSuccess) return Lose("cudaMemcpyAsync", error);
  }
  const cudaError_t error = cudaEventRecord(lane.done, lane.stream);
  return error == cudaSuccess ? absl::OkStatus() : Lose("cudaEventRecord", error);
}

Task<absl::Status> CudaDevice::Copy(CopyDirection direction, DeviceRegion* region,
                                    std::span<const CopySegment> segments) {
  KVT_CHECK(executor_->OnExecutor());
  auto* const mapped = dynamic_cast<CudaRegion*>(region);
  KVT_CHECK(mapped != nullptr);
  KVT_CO_RETURN_IF_ERROR(CheckSegments(mapped->bytes(), segments));
  KVT_CO_RETURN_IF_ERROR(state_);
  Lane& lane = lanes_[static_cast<size_t>(direction)];
  KVT_CO_ASSIGN_OR_RETURN(CopyLane::Turn turn, lane.line.Join());
  co_await turn.Begun();

  KVT_CO_RETURN_IF_ERROR(Enter());
  KVT_CO_RETURN_IF_ERROR(Submit(lane, direction, mapped->address(), segments));
  while (true) {
    const cudaError_t progress = cudaEventQuery(lane.done);
    if (progress == cudaSuccess) co_return absl::OkStatus();
    if (progress != cudaErrorNotReady) co_return Lose("a copy", progress);
    co_await SleepUntil(executor_, executor_->Now() + kPollInterval);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int ordinal, Executor* executor) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return CudaError("cudaGetDeviceCount", error);
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(
        absl::StrCat("CUDA: no GPU ", ordinal, " among the ", count, " of this machine"));
  }
  error = cudaSetDevice(ordinal);
  if (error != cudaSuccess) return CudaError("cudaSetDevice", error);
  cudaDeviceProp properties{};
  error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return CudaError("cudaGetDeviceProperties", error);
  KVT_ASSIGN_OR_RETURN(const DriverCalls driver, FindDriverCalls());
  auto device =
      std::make_unique<CudaDevice>(executor, ordinal, std::string(properties.name), driver);
  KVT_RETURN_IF_ERROR(device->CreateLanes());
  return device;
}

}  // namespace kvtier
