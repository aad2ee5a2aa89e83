#include "tier_gpu/device/cuda_region.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp PropertiesOn(CUdevice gpu) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu};
  properties.requestedHandleTypes = kDescriptor;
  return properties;
}

// Returns whether the error says that the memory is not what its descriptor was said to be.
bool IsOfTheDescriptor(CUresult error) {
  return error == CUDA_ERROR_INVALID_VALUE || error == CUDA_ERROR_INVALID_HANDLE ||
         error == CUDA_ERROR_OPERATING_SYSTEM || error == CUDA_ERROR_NOT_SUPPORTED ||
         error == CUDA_ERROR_UNKNOWN;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRegion>> CudaRegion::Reserve(
    const CudaDriver& driver, const CudaContext& context, const RegionShape& shape,
    std::shared_ptr<const CopiesAbandoned> abandoned) {
  KVT_RETURN_IF_ERROR(CheckShape(shape));
  const CudaScope scope(context);
  const CUmemAllocationProp properties = PropertiesOn(context.gpu());
  size_t granularity = 0;
  KVT_RETURN_IF_ERROR(driver.Status(
      "cuMemGetAllocationGranularity",
      driver.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
  if (granularity == 0 || shape.handle_bytes % granularity != 0) {
    return absl::InvalidArgumentError(absl::StrCat("handle_bytes is ", shape.handle_bytes,
                                                   "; must be a multiple of ", granularity,
                                                   " on this GPU"));
  }
  CUdeviceptr start = 0;
  KVT_RETURN_IF_ERROR(driver.Status(
      "cuMemAddressReserve",
      driver.reserve(&start, shape.handle_bytes * shape.max_handles, granularity, 0, 0)));
  auto region = absl::WrapUnique(new CudaRegion(driver, context, shape, std::move(abandoned)));
  region->start_ = start;
  return region;
}

// Ignores errors: nothing can be done about a driver that fails to free memory, and after a device
// is lost every call fails.
CudaRegion::~CudaRegion() {
  while (handles() > 0) Shrink();
  if (*abandoned_) return;
  const CudaScope scope(context_);
  (void)driver_.free_addresses(start_, shape_.handle_bytes * shape_.max_handles);
}

int CudaRegion::descriptor(size_t handle) const {
  KVT_CHECK(handle < handles());
  return handles_[handle].descriptor;
}

std::byte* CudaRegion::address() const {
  return reinterpret_cast<std::byte*>(start_);  // NOLINT(performance-no-int-to-ptr)
}

absl::Status CudaRegion::CheckRoom() const {
  if (*abandoned_) return absl::UnavailableError("CUDA: the region's device is lost");
  if (handles() < shape_.max_handles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("CUDA: the region has ", shape_.max_handles, " handles, the most that it may"));
}

absl::Status CudaRegion::Grow() {
  KVT_RETURN_IF_ERROR(CheckRoom());
  const CudaScope scope(context_);
  const CUmemAllocationProp properties = PropertiesOn(context_.gpu());
  Handle handle;
  KVT_RETURN_IF_ERROR(driver_.Status(
      "cuMemCreate", driver_.create(&handle.memory, shape_.handle_bytes, &properties, 0)));
  absl::Status added =
      driver_.Status("cuMemExportToShareableHandle",
                     driver_.export_handle(&handle.descriptor, handle.memory, kDescriptor, 0));
  // The driver does not promise that started programs do not inherit the descriptor.
  if (added.ok()) (void)fcntl(handle.descriptor, F_SETFD, FD_CLOEXEC);
  if (added.ok()) added = Map(handle);
  if (added.ok()) return added;
  if (handle.descriptor >= 0) close(handle.descriptor);
  (void)driver_.release(handle.memory);
  return added;
}

absl::Status CudaRegion::GrowBy(int descriptor) {
  KVT_RETURN_IF_ERROR(CheckRoom());
  Handle handle;
  handle.descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (handle.descriptor < 0) {
    const std::string text =
        absl::StrCat("CUDA: descriptor ", descriptor, ": ", std::generic_category().message(errno));
    return errno == EBADF ? absl::InvalidArgumentError(text) : absl::ResourceExhaustedError(text);
  }
  const CudaScope scope(context_);
  // The driver takes the descriptor number in place of a pointer.
  const auto number = static_cast<uintptr_t>(handle.descriptor);
  void* const as_pointer = reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
  absl::Status added =
      StatusOfHandle("cuMemImportFromShareableHandle",
                     driver_.import_handle(&handle.memory, as_pointer, kDescriptor));
  if (added.ok()) {
    added = Map(handle);
    if (added.ok()) return added;
    (void)driver_.release(handle.memory);
  }
  close(handle.descriptor);
  return added;
}

absl::Status CudaRegion::StatusOfHandle(const char* call, CUresult error) const {
  absl::Status status = driver_.Status(call, error);
  if (!IsOfTheDescriptor(error)) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(status.message()), "; must be a handle of ", shape_.handle_bytes, " bytes"));
}

absl::Status CudaRegion::Map(const Handle& handle) {
  const CUdeviceptr at = place(handles());
  KVT_RETURN_IF_ERROR(
      StatusOfHandle("cuMemMap", driver_.map(at, shape_.handle_bytes, 0, handle.memory, 0)));
  CUmemAccessDesc access{};
  access.location = PropertiesOn(context_.gpu()).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  absl::Status usable =
      StatusOfHandle("cuMemSetAccess", driver_.set_access(at, shape_.handle_bytes, &access, 1));
  if (!usable.ok()) {
    (void)driver_.unmap(at, shape_.handle_bytes);
    return usable;
  }
  handles_.push_back(handle);
  return absl::OkStatus();
}

void CudaRegion::Shrink() {
  KVT_CHECK(handles() > 0);
  const Handle last = handles_.back();
  handles_.pop_back();
  close(last.descriptor);
  if (*abandoned_) return;
  const CudaScope scope(context_);
  (void)driver_.unmap(place(handles()), shape_.handle_bytes);
  (void)driver_.release(last.memory);
}

}  // namespace kvtier
