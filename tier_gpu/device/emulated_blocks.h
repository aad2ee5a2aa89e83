// EmulatedBlocks does to the blocks of a batch what a GPU's kernels and its copy engine do, with
// the host forms of the kernels. It knows no time and no lane.
#ifndef KVTIER_TIER_GPU_DEVICE_EMULATED_BLOCKS_H_
#define KVTIER_TIER_GPU_DEVICE_EMULATED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/link_model.h"

namespace kvtier {

// EmulatedBlocks is immutable. It keeps copies of the batch's lists, and does not own the memory
// that it moves.
class EmulatedBlocks {
 public:
  // Copies the batch. REQUIRES: CheckBlocks() was OK.
  explicit EmulatedBlocks(const BlockBatch& batch);

  size_t size() const { return blocks_.size(); }
  // Returns the bytes that cross the link and the bytes that kernels read and write, for the link
  // model.
  CopyShape shape() const;
  // Moves block `index` and writes its outcome.
  void Move(size_t index) const;
  // Calls `visit` for the device memory that Move() reads or writes, except outcomes.
  void VisitDevice(size_t index,
                   absl::FunctionRef<void(std::span<const std::byte> run)> visit) const;
  std::span<std::byte> host(size_t index) const {
    return {blocks_[index].host, batch_.block_bytes};
  }

 private:
  void Offload(size_t index) const;
  void Onboard(size_t index) const;
  void MoveRows(size_t index, std::byte* raw) const;
  void Sum(size_t index) const;

  const BlockGeometry geometry_;
  const std::vector<BlockTransfer> blocks_;
  const RowMoves moves_;
  BlockBatch batch_;  // Its pointers point to the two above.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_EMULATED_BLOCKS_H_
