// Tests the promises of Device with the emulated form.
#include "tests/testing/block_cases.h"
#include "tests/testing/device_cases.h"
#include "tests/testing/region_cases.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier::testing {
namespace {

DeviceForm Emulated(const std::string& name, std::optional<uint64_t> seed) {
  return {.name = name, .open = [seed](const Clock* clock, uint64_t pin_chunk_bytes) {
            EmulatedDevice::Options options;
            options.link = LinkModel::Instant();
            options.seed = seed;
            options.pin_chunk_bytes = pin_chunk_bytes;
            return absl::StatusOr<std::unique_ptr<Device>>(
                std::make_unique<EmulatedDevice>(clock, options));
          }};
}

const auto kForms = ::testing::Values(Emulated("InOrder", std::nullopt), Emulated("Shuffled", 1));
INSTANTIATE_TEST_SUITE_P(Emulated, DeviceTest, kForms,
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Emulated, BlockBatchTest, kForms,
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kvtier::testing
