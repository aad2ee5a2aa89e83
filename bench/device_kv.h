// DeviceKv is the KV memory of an engine in a benchmark: tensors on a device, a pair for each
// layer. It copies its blocks as engines do, by batched calls with a descriptor for each piece, and
// copies as many bytes in one piece, which measures the link.
#ifndef KVTIER_BENCH_DEVICE_KV_H_
#define KVTIER_BENCH_DEVICE_KV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lanes/kv_tensors.h"
#include "core/clock.h"
#include "core/space.h"
#include "tier_disk/io/page_buffer.h"
#include "tier_gpu/device/device.h"

namespace kvtier::bench {

// DeviceKv owns the device. Used by one thread.
class DeviceKv {
 public:
  // Shape of Llama 3 8B with blocks of 16 tokens in bf16.
  static constexpr uint32_t kLayers = 32;
  static constexpr uint32_t kTokens = 16;
  static constexpr uint32_t kHeads = 8;
  static constexpr uint32_t kHeadDim = 128;
  static constexpr uint64_t kPieceBytes = uint64_t{2} * kTokens * kHeads * kHeadDim;
  static constexpr uint32_t kPieces = 2 * kLayers;
  static constexpr uint64_t kBlockBytes = kPieces * kPieceBytes;

  // Opens `device`, a name of OpenDevice(). The tensors have room for `slots` blocks, and the host
  // memory beside them for `job_blocks`. Errors: as OpenDevice(); kResourceExhausted, no memory.
  static absl::StatusOr<std::unique_ptr<DeviceKv>> Open(const std::string& device, uint32_t slots,
                                                        uint32_t job_blocks);
  ~DeviceKv();

  const std::string& device_name() const { return device_->name(); }
  KvTensors tensors() const;
  // Returns the space that stores its blocks unchanged.
  static SpaceSpec Space();
  // Returns host memory for the blocks of a job, one after another.
  std::span<std::byte> host() { return host_.bytes(); }
  // Copies these blocks between the tensors and host(), and returns when everything has ended. The
  // calling thread polls without a pause. Errors: the device's. REQUIRES: at most job_blocks.
  absl::Status Copy(CopyDirection direction, std::span<const uint32_t> slots);
  // Copies the bytes of as many blocks in one piece, between host() and memory of no block, and
  // returns when that has ended. Errors, REQUIRES: as Copy().
  absl::Status CopyWhole(CopyDirection direction, size_t blocks);

 private:
  DeviceKv(uint32_t slots, uint32_t job_blocks) : slots_(slots), host_(job_blocks * kBlockBytes) {}
  // Returns the offset of the piece from the first byte of the tensors.
  uint64_t OffsetOf(uint32_t piece, uint32_t slot) const {
    return (uint64_t{piece} * slots_ + slot) * kPieceBytes;
  }
  absl::Status CopyBatch(CopyDirection direction, DeviceRegion* region,
                         std::span<const CopySegment> segments);

  const MonotonicClock clock_;
  const uint32_t slots_;
  PageBuffer host_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceRegion> region_;
  std::unique_ptr<DeviceRegion> whole_;  // Same size as host().
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_DEVICE_KV_H_
