// Buffer is the memory of a Python object that a binding reads or writes without the GIL.
#ifndef KVTIER_CLIENT_PYTHON_BUFFER_H_
#define KVTIER_CLIENT_PYTHON_BUFFER_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <string>

namespace kvtier::python {

enum class Access { kRead, kWrite };

// Holds the bytes of a C-contiguous buffer of any item type. Made and destroyed under the GIL,
// used without it. `name` is the argument's, for errors: ValueError, it is no such buffer.
class Buffer {
 public:
  Buffer(const pybind11::object& object, const std::string& name, Access access) {
    const int flags =
        access == Access::kWrite ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS;
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) == 0) return;
    PyErr_Clear();
    throw pybind11::value_error(name + " must be a contiguous" +
                                (access == Access::kWrite ? ", writable buffer" : " buffer"));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_BUFFER_H_
