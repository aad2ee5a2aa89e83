#include "tier_gpu/plan/slot_copies.h"

#include <algorithm>
#include <limits>

namespace kvtier {
namespace {

// Returns the bytes from `offset` to the next border; `every` is the distance between borders, 0:
// there are none.
uint64_t LeftTo(uint64_t every, uint64_t offset) {
  return every == 0 ? std::numeric_limits<uint64_t>::max() : every - offset % every;
}

// Returns how many bytes of the block, from `done` on, can be one segment.
uint64_t PieceBytes(const SlotCopy& block, uint64_t done, const PinnedChunks& chunks,
                    uint64_t handle_bytes) {
  const auto in_host = static_cast<uint64_t>(block.host.data() + done - chunks.base);
  return std::min({block.host.size() - done, LeftTo(chunks.chunk_bytes, in_host),
                   LeftTo(handle_bytes, block.device_offset + done)});
}

bool Continues(const CopySegment& segment, const CopySegment& last) {
  return segment.host == last.host + last.bytes &&
         segment.device_offset == last.device_offset + last.bytes &&
         last.bytes + segment.bytes <= kMaxCopyBytes;
}

}  // namespace

std::vector<std::vector<CopySegment>> PlanSlotCopies(std::span<const SlotCopy> blocks,
                                                     const PinnedChunks& chunks,
                                                     uint64_t handle_bytes) {
  std::vector<std::vector<CopySegment>> batches;
  uint64_t batch_bytes = 0;
  for (const SlotCopy& block : blocks) {
    uint64_t bytes = 0;
    for (uint64_t done = 0; done < block.host.size(); done += bytes) {
      bytes = PieceBytes(block, done, chunks, handle_bytes);
      const CopySegment segment = {.device_offset = block.device_offset + done,
                                   .host = block.host.data() + done,
                                   .bytes = bytes};
      const bool at_border =
          LeftTo(handle_bytes, segment.device_offset) == handle_bytes ||
          LeftTo(chunks.chunk_bytes, static_cast<uint64_t>(segment.host - chunks.base)) ==
              chunks.chunk_bytes;
      if (batches.empty() || batches.back().size() == kMaxCopySegments ||
          batch_bytes + bytes > kMaxCopyBytes) {
        batches.emplace_back();
        batch_bytes = 0;
      }
      batch_bytes += bytes;
      std::vector<CopySegment>& batch = batches.back();
      if (!batch.empty() && !at_border && Continues(segment, batch.back())) {
        batch.back().bytes += bytes;
      } else {
        batch.push_back(segment);
      }
    }
  }
  return batches;
}

}  // namespace kvtier
