// Parts of the tests of Device, for every form of it: a device, a pinned arena, a signal page, and
// noise to copy. The cases are in device_cases.h and region_cases.h; each form's test instantiates
// DeviceTest.
#ifndef KVTIER_TESTS_TESTING_DEVICE_RIG_H_
#define KVTIER_TESTS_TESTING_DEVICE_RIG_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/clock.h"
#include "tests/testing/patience.h"
#include "tier_gpu/device/device.h"

namespace kvtier::testing {

inline constexpr auto kIn = CopyDirection::kHostToDevice;
inline constexpr auto kOut = CopyDirection::kDeviceToHost;
inline constexpr uint64_t kHandleBytes = 2 * kRegionGranularity;
// Size of a chunk of pinned memory, in bytes: small, so that tests cross the borders of chunks.
inline constexpr uint64_t kTestPinChunk = uint64_t{4} << 20;
inline constexpr uint64_t kArenaBytes = uint64_t{16} << 20;

struct DeviceForm {
  std::string name;
  // Opens the device, with kernels, and host memory pinned in chunks of `pin_chunk_bytes`.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(const Clock* clock,
                                                        uint64_t pin_chunk_bytes)>
      open;
};
inline void PrintTo(const DeviceForm& form, std::ostream* out) { *out << form.name; }

// Page-aligned memory that is freed after the device.
class Arena {
 public:
  explicit Arena(uint64_t bytes) : bytes_(bytes) {
    void* const start =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(start, MAP_FAILED);
    start_ = static_cast<std::byte*>(start);
  }
  ~Arena() { munmap(start_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::span<std::byte> bytes() const { return {start_, bytes_}; }

 private:
  const uint64_t bytes_;
  std::byte* start_ = nullptr;
};

inline void FillWithNoise(uint64_t seed, std::span<std::byte> bytes) {
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&bytes[at], &word, std::min(sizeof(word), bytes.size() - at));
  }
}

// Releases all words of a page when a test takes far too long, and fails it. If a driver counts the
// entries of a stream differently from CudaLane, a call may wait inside the driver for room that
// only its own thread would make, by raising a word.
class Rescuer {
 public:
  Rescuer(const SignalPage* page, absl::Duration patience)
      : thread_([this, page, patience] {
          if (ended_.WaitForNotificationWithTimeout(patience)) return;
          ADD_FAILURE() << "held up for " << patience << ", by the driver; all words are released";
          page->Release(0, kSignalWords);
        }) {}
  ~Rescuer() {
    ended_.Notify();
    thread_.join();
  }
  Rescuer(const Rescuer&) = delete;
  Rescuer& operator=(const Rescuer&) = delete;

 private:
  absl::Notification ended_;
  std::thread thread_;
};

// Submits a batch of one block of 4096 bytes, at the start of the region and of host memory. The
// outcomes follow the block in host memory.
inline absl::Status SubmitRow(Device* device, DeviceRegion* region, std::span<std::byte> host,
                              CopyDirection direction = kIn) {
  const BlockGeometry geometry = {.shape = {.layers = 1, .axes = 1, .tokens = 8, .kv_heads = 1},
                                  .row_bytes = 512,
                                  .token_stride = 512,
                                  .planes = {0}};
  const BlockTransfer block = {.host = host.data()};
  return device
      ->SubmitBlocks({.direction = direction,
                      .region = region,
                      .geometry = &geometry,
                      .block_bytes = 4096,
                      .blocks = {&block, 1},
                      .outcomes = reinterpret_cast<BlockOutcomes*>(&host[4096])})
      .status();
}

class DeviceTest : public ::testing::TestWithParam<DeviceForm> {
 protected:
  void SetUp() override {
    auto device = GetParam().open(&clock_, kTestPinChunk);
    if (!device.ok()) GTEST_SKIP() << "NOT TESTED: " << device.status();
    device_ = *std::move(device);
    region_ = Must(device_->CreateRegion({.handle_bytes = kHandleBytes, .max_handles = 4}, 2));
    ASSERT_EQ(device_->Pin(arena_.bytes()), absl::OkStatus());
    ASSERT_EQ(device_->Pin(page_->bytes()), absl::OkStatus());
    rescuer_.emplace(page_.get(), 6 * Long());
  }

  static absl::Duration Long() { return Patience(absl::Seconds(20)); }

  template <typename T>
  static T Must(absl::StatusOr<T> made) {
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : T{};
  }
  std::span<std::byte> host(uint64_t offset, uint64_t bytes) const {
    return arena_.bytes().subspan(offset, bytes);
  }
  CopySegment Segment(uint64_t device_offset, std::span<std::byte> host) const {
    return {device_offset, host.data(), host.size()};
  }
  absl::StatusOr<Ticket> Submit(CopyDirection direction, std::span<const CopySegment> segments) {
    return device_->Submit({.direction = direction, .region = region_.get(), .segments = segments});
  }
  // Returns the completions that were not polled yet, up to `most`.
  std::vector<Completion> PollAll(size_t most = 3 * kMaxLaneDepth) {
    std::vector<Completion> ended(most);
    ended.resize(device_->Poll(ended));
    return ended;
  }
  // Drains and polls the device, and expects that every batch succeeded.
  void Finish() {
    ASSERT_EQ(device_->Drain(Long()), absl::OkStatus());
    for (const Completion& end : PollAll()) EXPECT_EQ(end.status, absl::OkStatus());
  }
  // Copies one batch to or from the device, and waits for its end.
  void Onboard(std::span<const CopySegment> segments) {
    Must(Submit(CopyDirection::kHostToDevice, segments));
    Finish();
  }
  void Offload(std::span<const CopySegment> segments) {
    Must(Submit(CopyDirection::kDeviceToHost, segments));
    Finish();
  }
  // Returns `bytes` bytes of the region from `offset` on.
  std::vector<std::byte> Held(uint64_t offset, uint64_t bytes) {
    const std::span<std::byte> out = host(kArenaBytes - bytes, bytes);
    const CopySegment segment = Segment(offset, out);
    Offload({&segment, 1});
    return {out.begin(), out.end()};
  }

  MonotonicClock clock_;
  const std::unique_ptr<SignalPage> page_ = *SignalPage::Create();
  const Arena arena_{kArenaBytes};
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceRegion> region_;
  std::optional<Rescuer> rescuer_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_DEVICE_RIG_H_
