// DeviceUuid names one GPU in all processes, which an ordinal does not: with another
// CUDA_VISIBLE_DEVICES the same ordinal names another GPU.
#ifndef KVTIER_CORE_DEVICE_UUID_H_
#define KVTIER_CORE_DEVICE_UUID_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvtier {

struct DeviceUuid {
  std::array<uint8_t, 16> bytes{};  // Bytes of the UUID; all 0: no device.

  friend bool operator==(const DeviceUuid&, const DeviceUuid&) = default;
  explicit operator bool() const { return *this != DeviceUuid(); }
  // Returns it as the driver's tools print it: "GPU-8-4-4-4-12" of hexadecimal digits.
  std::string ToString() const {
    const std::string hex = absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4),
                        "-", hex.substr(16, 4), "-", hex.substr(20));
  }
};

}  // namespace kvtier

#endif  // KVTIER_CORE_DEVICE_UUID_H_
