// CudaBlocks is what SubmitBlocks() needs for one direction: a stream that runs ahead of the lane's
// stream, two buffers of stored blocks on the device, room for raw blocks between the kernels, and
// the lists that the kernels read.
//
// The stream ahead fills the buffers and the lane's stream empties them; each waits for the other
// by events on the device. So an offload's kernels run ahead of its copies, and an onboard's copies
// run ahead of its kernels. Where the lane awaited a word, the stream ahead waits for the lane,
// because the word may say that the data it reads is complete. All kernels of one direction run in
// one stream, so they share one room for raw blocks without an event.
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

// Number of buffers: one is filled while the other is emptied.
inline constexpr size_t kBlockBuffers = 2;
// Thread blocks of each kernel, for raw and for encoded batches: few enough to leave the GPU to the
// engine. On an H200, 8 of them gather and sum 78 GB/s, and its link carries 55 GB/s. For encoded
// blocks, 16 instead of 8 gave 1.3 times the throughput.
inline constexpr uint32_t kRawThreadBlocks = 8;
inline constexpr uint32_t kCodecThreadBlocks = 16;

// CudaBlocks is called by one thread at a time, which has entered the context.
class CudaBlocks {
 public:
  struct Options {
    CopyDirection direction{};
    cudaStream_t lane = nullptr;  // Borrowed.
    int priority = 0;             // Priority of the stream ahead.
    uint64_t largest_block = 0;   // Raw bytes of the largest block that is taken.
  };
  // Creates the stream and the memory, and loads the kernels: loading one later could wait for all
  // work that runs on the GPU. Errors: CudaStatus()'s.
  static absl::StatusOr<std::unique_ptr<CudaBlocks>> Open(const Options& options);
  // REQUIRES: Quiet() is true, and the lane is quiet.
  ~CudaBlocks();
  CudaBlocks(const CudaBlocks&) = delete;
  CudaBlocks& operator=(const CudaBlocks&) = delete;

  // Checks the batch. Errors: kInvalidArgument, as Device::SubmitBlocks().
  absl::Status Check(const BlockBatch& batch, const CudaHostMemory& host) const;
  // Returns the commands that move the batch, for the lane to feed, and writes the outcomes that
  // need no GPU. `place` says which of the kernels' lists this operation fills: its
  // CudaLane::next_place(). REQUIRES: Check() was OK.
  std::vector<CudaCommand> Commands(const BlockBatch& batch, const CudaHostMemory& host,
                                    size_t place);
  // Returns a command that makes later batches in the stream ahead wait for the lane's last
  // Await(). Feed it to the lane right after that wait.
  CudaCommand Fence() const { return streams_.Record(awaited_, kInLane); }
  // Returns the lane's stream and the stream ahead.
  const CudaStreams& streams() const { return streams_; }
  // Returns the event for CudaLane::Join().
  cudaEvent_t joined() const { return joined_; }
  // Returns whether nothing runs in the stream ahead, as in CudaLane::Quiet().
  bool Quiet() const { return IsQuiet(streams_.ahead); }

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    cudaEvent_t filled = nullptr;
    cudaEvent_t emptied = nullptr;
  };
  // Lists of one operation, page-locked.
  struct Lists {
    std::array<kernels::StridedSegment, kMaxBlockMoves> moves;
    std::array<kernels::StridedSegment, kMaxBatchBlocks> stored;  // Stored blocks to be summed.
    std::array<kernels::CodecBlock, kMaxBatchBlocks> blocks;
  };
  // Distances between a batch's blocks, in bytes: in a buffer, and in the room for raw blocks.
  struct Steps {
    uint64_t stored = 0;
    uint64_t raw = 0;
  };
  // Blocks of a batch that share one buffer.
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
  // Returns the kernels of a portion, in their order.
  std::vector<CudaCommand> Kernels(const BlockBatch& batch, const RowMoves& moves,
                                   const Portion& portion, size_t place) const;
  CudaCommand MoveRows(const BlockBatch& batch, const RowMoves& moves, const Portion& portion,
                       size_t place) const;
  CudaCommand Code(const BlockBatch& batch, const Portion& portion, size_t place) const;
  CudaCommand SumStored(const BlockBatch& batch, const Portion& portion, size_t place) const;
  CudaCommand ZeroRests(const BlockBatch& batch, const Portion& portion) const;
  void AppendOutcomes(const BlockBatch& batch, const CudaHostMemory& host, size_t place,
                      std::vector<CudaCommand>* commands) const;
  // Returns the request for sums of the portion's blocks, in device memory.
  kernels::SumRequest SumsOf(const BlockBatch& batch, const Portion& portion, size_t place) const;

  const Options options_;
  CudaStreams streams_;
  cudaEvent_t awaited_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  const uint64_t buffer_bytes_;  // Size of each buffer, and of the room for raw blocks.
  std::byte* memory_ = nullptr;
  std::array<Buffer, kBlockBuffers> buffers_;
  std::byte* raw_ = nullptr;
  kernels::LaneSums* pieces_ = nullptr;
  // The counter of SumRequest; one is enough, as all kernels are in one stream.
  uint32_t* arrived_ = nullptr;
  BlockOutcomes* outcomes_ = nullptr;  // kMaxLaneDepth of them, on the device.
  size_t next_buffer_ = 0;
  // kMaxLaneDepth of them; lists_on_device_ is the same memory as the device sees it.
  Lists* lists_ = nullptr;
  Lists* lists_on_device_ = nullptr;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_CUDA_BLOCKS_H_
