#include "client/lanes/calibration_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace kvtier {

absl::StatusOr<CalibrationTable> ReadCalibration(const std::string& path,
                                                 const CalibratedDevice& device,
                                                 const LinkModel& link) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) {
    return absl::NotFoundError(absl::StrCat("calibration: no file ", path));
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!std::filesystem::is_regular_file(path, error) || !file.is_open() || file.bad()) {
    return absl::UnavailableError(absl::StrCat("calibration: cannot read ", path));
  }
  return ParseCalibration(text.str(), device, link);
}

absl::Status WriteCalibration(const std::string& path, const Calibration& calibration) {
  // Of this process: two that end at once each write a whole file, and the last one stays.
  const std::string next = absl::StrCat(path, ".", getpid());
  std::ofstream file(next, std::ios::trunc);
  file << FormatCalibration(calibration);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(next, path, error);
  if (file && !error) return absl::OkStatus();
  std::filesystem::remove(next, error);
  return absl::UnavailableError(absl::StrCat("calibration: cannot write ", path));
}

}  // namespace kvtier
