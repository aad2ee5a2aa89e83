#include "client/python/secret_binding.h"

#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "core/secret_file.h"

namespace py = pybind11;

namespace kvtier::python {

void BindSecret(py::module_& module) {
  module.def(
      "read_secret_file",
      [](const std::filesystem::path& path) {
        absl::StatusOr<std::string> secret;
        {
          const py::gil_scoped_release released;
          secret = ReadSecretFile(path);
        }
        if (!secret.ok()) throw py::value_error(std::string(secret.status().message()));
        return py::bytes(*secret);
      },
      "Returns the secret of a tenant in a file: every byte of it, less one newline at its end.\n\n"
      "Raises ValueError for a file that cannot be read, that others may use or the group may\n"
      "write, that changes while it is read, or that holds no secret.");
}

}  // namespace kvtier::python
