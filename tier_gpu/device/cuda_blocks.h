// CudaBlocks is what SubmitBlocks() needs of one direction: a stream ahead of the lane's, two
// buffers of stored blocks on the device, room for the raw ones between the kernels, and the lists
// that the kernels read.
//
// Buffers are filled in the stream ahead and emptied in the lane's, and both wait for each other by
// events on the device: an offload's kernels run ahead of its copies, an onboarding's copies ahead
// of its kernels. What is ahead waits for the lane where the lane awaited a word: what the word
// stands for is what it reads. All kernels of a direction are in one stream, so that the room
// between them is one, and needs no event.
#ifndef KVTIER_TIER_GPU_DEVICE_CUDA_BLOCKS_H_
#define KVTIER_TIER_GPU_DEVICE_CUDA_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/codec.h"
#include "kernels/copy_segments.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/device/cuda_commands.h"
#include "tier_gpu/device/cuda_copies.h"
#include "tier_gpu/device/cuda_host_memory.h"
#include "tier_gpu/device/cuda_lane.h"

namespace kvtier {

// One is filled while the other is emptied.
inline constexpr size_t kBlockBuffers = 2;
// Thread blocks of each kernel, of batches as they are and of encoded ones: few enough to leave the
// GPU to the engine. On an H200 eight gather and sum 78 GB/s, and its link takes 55; of encoded
// blocks 16 instead of 8 made 1.3 times as much.
inline constexpr uint32_t kRawThreadBlocks = 8;
inline constexpr uint32_t kCodecThreadBlocks = 16;

// One thread at a time; the context is entered by the caller.
class CudaBlocks {
 public:
  struct Options {
    CopyDirection direction{};
    cudaStream_t lane = nullptr;  // Not owned.
    int priority = 0;             // Of the stream ahead.
    uint64_t largest_block = 0;   // Raw bytes of the largest block that is taken.
  };
  // Loads the kernels too: later that could wait for all that runs. Errors: CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaBlocks>> Open(const Options& options);
  // REQUIRES: Quiet(), and so is the lane.
  ~CudaBlocks();
  CudaBlocks(const CudaBlocks&) = delete;
  CudaBlocks& operator=(const CudaBlocks&) = delete;

  // Errors: kInvalidArgument, as Device::SubmitBlocks().
  absl::Status Check(const BlockBatch& batch, const CudaHostMemory& host) const;
  // What moves the batch, for the lane to feed; outcomes that are known already are
  // written. `place` is the operation's (CudaLane::next_place). REQUIRES: Check() was OK.
  std::vector<CudaCommand> Commands(const BlockBatch& batch, const CudaHostMemory& host,
                                    size_t place);
  // Makes what is ahead wait for what the lane awaited; to be fed right behind that.
  CudaCommand Fence() const { return streams_.Record(awaited_, kInLane); }
  // The lane's stream, and the one ahead.
  const CudaStreams& streams() const { return streams_; }
  // The event that CudaLane::Join() takes.
  cudaEvent_t joined() const { return joined_; }
  // Returns whether the stream ahead is quiet, as CudaLane::Quiet() has it.
  bool Quiet() const { return IsQuiet(streams_.ahead); }

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    cudaEvent_t filled = nullptr;
    cudaEvent_t emptied = nullptr;
  };
  // Of one operation, page-locked.
  struct Lists {
    std::array<kernels::StridedSegment, kMaxBlockMoves> moves;
    std::array<kernels::StridedSegment, kMaxBatchBlocks> stored;  // To be summed.
    std::array<kernels::CodecBlock, kMaxBatchBlocks> blocks;
  };
  // Where a batch's blocks lie in a buffer, and in the room between: each at a multiple.
  struct Steps {
    uint64_t stored = 0;
    uint64_t raw = 0;
  };
  // Blocks of a batch that are in one buffer.
  struct Portion {
    size_t first = 0;
    size_t count = 0;
    std::byte* buffer = nullptr;
    size_t first_move = 0;
    size_t moves = 0;
  };
  explicit CudaBlocks(const Options& options);
  absl::Status OpenStream();
  absl::Status Allocate();
  absl::Status LoadKernels();
  CudaCommand::Where where_kernels() const {
    return options_.direction == CopyDirection::kDeviceToHost ? kAhead : kInLane;
  }
  static Steps StepsOf(const BlockBatch& batch);
  void FillLists(const BlockBatch& batch, const RowMoves& moves, const Portion& portion,
                 Lists* lists) const;
  // The kernels of a portion, in their order.
  std::vector<CudaCommand> Kernels(const BlockBatch& batch, const RowMoves& moves,
                                   const Portion& portion, size_t place) const;
  CudaCommand MoveRows(const BlockBatch& batch, const RowMoves& moves, const Portion& portion,
                       size_t place) const;
  CudaCommand Code(const BlockBatch& batch, const Portion& portion, size_t place) const;
  CudaCommand SumStored(const BlockBatch& batch, const Portion& portion, size_t place) const;
  CudaCommand ZeroRests(const BlockBatch& batch, const Portion& portion) const;
  void AppendOutcomes(const BlockBatch& batch, const CudaHostMemory& host, size_t place,
                      std::vector<CudaCommand>* commands) const;
  // Of the portion's blocks, in memory of the device.
  kernels::SumRequest SumsOf(const BlockBatch& batch, const Portion& portion, size_t place) const;

  const Options options_;
  CudaStreams streams_;
  cudaEvent_t awaited_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  const uint64_t buffer_bytes_;  // Of each buffer, and of the room for raw blocks.
  std::byte* memory_ = nullptr;
  std::array<Buffer, kBlockBuffers> buffers_;
  std::byte* raw_ = nullptr;
  kernels::LaneSums* pieces_ = nullptr;
  uint32_t* arrived_ = nullptr;        // Of SumRequest; one, as all kernels are in one stream.
  BlockOutcomes* outcomes_ = nullptr;  // kMaxLaneDepth, on the device.
  size_t next_buffer_ = 0;
  Lists* lists_ = nullptr;  // kMaxLaneDepth; the same for the device.
  Lists* lists_on_device_ = nullptr;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_BLOCKS_H_
