// IoQueue decides which I/O of a disk starts next: foreground reads before prefetch before offload
// before reclaim before scrub, with neighbours joined. It bounds how much the device holds, because
// an I/O inside the device can no longer be overtaken.
//
// Pure bookkeeping: no I/O, no clock, no threads; its owner serialises the calls.
#ifndef KVTIER_TIER_DISK_IO_IO_QUEUE_H_
#define KVTIER_TIER_DISK_IO_IO_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "tier_disk/io/disk_io.h"

namespace kvtier {

// Background I/O starts while fewer of its bytes than this are inside the device; one batch may
// always run, however large. This is enough for bandwidth: with the one batch that exceeds it, a
// drive of 7 GB/s is busy for a fifth of a millisecond. A read that arrives now waits no longer
// than that. I/O that waits in the queue meanwhile forms long batches, which start one after
// another. If all of it were inside the device, all puts would end together, and the device would
// idle while they are committed.
inline constexpr uint64_t kBackgroundBytes = 1 << 20;
// Same bound for an I/O that is more than half of the longest batch (kMaxBatchBytes): it would wait
// for no neighbour of its size. With the bound above, writes of 512 KiB reach four fifths of the
// drive's speed; with this one a read waits for half a millisecond.
inline constexpr uint64_t kLargeBackgroundBytes = 3 << 20;
// Bound for reads, foreground and prefetch together. It lets the device read the next blocks while
// earlier ones are verified. Small reads need more in flight than small writes.
inline constexpr uint64_t kReadBytes = 2 << 20;
// Maximum number of batches of reads, foreground or prefetch, that pass waiting background work
// before one background batch goes first, so that background work ends under any load.
inline constexpr uint64_t kMaxOvertakes = 64;

class IoQueue {
 public:
  // Makes a queue. `depth`: number of batches inside the device at a time.
  explicit IoQueue(size_t depth) : depth_(depth) {}

  void Push(std::unique_ptr<DiskIo> io);
  // Queues a batch that failed as a whole, member by member, before everything else.
  void PushAgain(std::unique_ptr<IoBatch> batch);
  // Moves waiting prefetch I/Os that begin in these bytes to the foreground, in order.
  void MoveToForeground(DiskAddress from, uint64_t bytes);
  // Returns whether Pop() has something to start now.
  bool Ready() const;
  // Returns the batch to start now; nullptr: not Ready(). End it with Ended().
  std::unique_ptr<IoBatch> Pop();
  void Ended(const IoBatch& batch);

  bool empty() const { return waiting_ == 0; }
  size_t running() const { return running_; }

 private:
  static bool IsBackground(IoClass io_class) { return io_class >= IoClass::kOffload; }
  std::deque<std::unique_ptr<DiskIo>>& Of(IoClass io_class) {
    return queues_[static_cast<size_t>(io_class)];
  }
  // Returns the first class, from `from` on, that has an I/O waiting; kIoClassCount: none.
  size_t FirstWaiting(IoClass from) const;
  bool MayStart(size_t io_class) const;
  // Returns the class whose turn it is; kIoClassCount: none.
  size_t Turn() const;
  uint64_t& RunningBytes(const IoBatch& batch);
  void Start(const IoBatch& batch);

  const size_t depth_;
  std::array<std::deque<std::unique_ptr<DiskIo>>, kIoClassCount> queues_;
  std::deque<std::unique_ptr<IoBatch>> again_;
  size_t waiting_ = 0;
  size_t running_ = 0;
  uint64_t running_read_bytes_ = 0;  // Bytes of foreground and prefetch reads.
  uint64_t running_background_bytes_ = 0;
  uint64_t overtakes_ = 0;  // Number of batches of reads that passed waiting background work.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_IO_QUEUE_H_
