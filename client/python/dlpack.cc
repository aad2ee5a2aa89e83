#include "client/python/dlpack.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace py = pybind11;

namespace kvtier::python {
namespace {

// These are the constants and structs of the DLPack ABI, version 1.0.
constexpr int32_t kHostDevice = 1;
constexpr uint8_t kUnsignedInteger = 1;
constexpr uint64_t kReadOnly = 1;

struct DlDevice {
  int32_t type = kHostDevice;
  int32_t id = 0;
};
struct DlType {
  uint8_t code = kUnsignedInteger;
  uint8_t bits = 8;
  uint16_t lanes = 1;
};
struct DlTensor {
  void* data = nullptr;
  DlDevice device;
  int32_t dimensions = 1;
  DlType type;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;
};
static_assert(sizeof(DlTensor) == 48);
// Tensor for consumers that know no versions of the ABI.
struct DlManaged {
  DlTensor tensor;
  void* context = nullptr;
  void (*deleter)(DlManaged*) = nullptr;
};
static_assert(sizeof(DlManaged) == 64);
struct DlManagedVersioned {
  uint32_t major = 1;
  uint32_t minor = 0;
  void* context = nullptr;
  void (*deleter)(DlManagedVersioned*) = nullptr;
  uint64_t flags = 0;
  DlTensor tensor;
};
static_assert(sizeof(DlManagedVersioned) == 80);

// Names of a capsule that nobody has taken yet.
constexpr char kName[] = "dltensor";
constexpr char kVersionedName[] = "dltensor_versioned";

// The tensor and all that it points to, which live as long as its consumer has it.
template <typename Managed>
struct Exported {
  Block block;  // Keeps the memory mapped.
  int64_t shape = 0;
  int64_t stride = 1;
  Managed managed;
};

template <typename Managed>
void Delete(Managed* managed) {
  delete static_cast<Exported<Managed>*>(managed->context);
}

// Returns a capsule that owns the tensor until a consumer renames it.
template <typename Managed>
py::capsule Export(const Block& block, const char* name, PyCapsule_Destructor destructor) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->block = block;
  exported->shape = static_cast<int64_t>(block.size);
  Managed& managed = exported->managed;
  managed.tensor = {.data = const_cast<void*>(block.data),
                    .shape = &exported->shape,
                    .strides = &exported->stride};
  managed.context = exported.get();
  managed.deleter = &Delete<Managed>;
  PyObject* const capsule = PyCapsule_New(&managed, name, destructor);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(exported.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

void DropUntaken(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName) == 0) return;
  Delete(static_cast<DlManaged*>(PyCapsule_GetPointer(capsule, kName)));
}

void DropUntakenVersioned(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kVersionedName) == 0) return;
  Delete(static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(capsule, kVersionedName)));
}

using Version = std::optional<std::pair<uint32_t, uint32_t>>;
using Device = std::optional<std::pair<int32_t, int32_t>>;

py::capsule ToDlpack(const Block& block, const py::object& stream, const Version& max_version,
                     const Device& device, const std::optional<bool>& copy) {
  if (!stream.is_none()) throw py::buffer_error("stream must be None: the block is on the host");
  if (device && *device != std::pair(kHostDevice, 0)) {
    throw py::buffer_error("dl_device must be None or (1, 0): the block is on the host");
  }
  if (copy.value_or(false)) {
    throw py::buffer_error("copy must not be True: copy_out() copies a block and proves it");
  }
  if (max_version && max_version->first >= 1) {
    py::capsule capsule = Export<DlManagedVersioned>(block, kVersionedName, &DropUntakenVersioned);
    if (block.read_only) {
      capsule.get_pointer<DlManagedVersioned>()->flags |= kReadOnly;
    }
    return capsule;
  }
  if (block.read_only) {
    throw py::buffer_error(
        "the consumer takes no DLPack of version 1; must do so, because a leased block is "
        "read-only");
  }
  return Export<DlManaged>(block, kName, &DropUntaken);
}

}  // namespace

void DefineDlpack(py::class_<Block>* block) {
  block
      ->def("__dlpack__", &ToDlpack, py::kw_only(), py::arg("stream") = py::none(),
            py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
            py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const Block&) { return py::make_tuple(kHostDevice, 0); });
}

}  // namespace kvtier::python
