// IoQueue decides which I/O of a disk starts next: foreground reads before prefetch
// before offload before reclaim before scrub, neighbours together. It bounds how much the
// device holds, because what is inside can no longer be overtaken.
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

// Background I/O starts while fewer of its bytes are inside the device; one may always
// run, however large. Enough for bandwidth: with the batch that goes over it, 7 GB/s for a
// fifth of a millisecond. A read that comes now waits behind no more than that. And what
// waits here meanwhile becomes long batches that follow at once: were all of it inside,
// all puts would end together and the device would idle while they are committed.
inline constexpr uint64_t kBackgroundBytes = 1 << 20;
// The same for reads, foreground and prefetch together: while some are verified, the
// next ones are read. Small ones need more of them inside at a time than writes do.
inline constexpr uint64_t kReadBytes = 2 << 20;
// So many foreground reads may pass waiting background work before one of it goes
// first: it must come to its end under any load.
inline constexpr uint64_t kMaxOvertakes = 64;

class IoQueue {
 public:
  // `depth`: batches inside the device at a time.
  explicit IoQueue(size_t depth) : depth_(depth) {}

  void Push(std::unique_ptr<DiskIo> io);
  // A batch that failed as a whole, member by member: goes before everything else.
  void PushAgain(std::unique_ptr<IoBatch> batch);
  // Prefetch I/Os that wait and begin in these bytes go with the foreground's, in order.
  void Hasten(DiskAddress from, uint64_t bytes);
  // True when Pop() has something to start now.
  bool Ready() const;
  // The batch to start now; nullptr: not Ready(). End it with Ended().
  std::unique_ptr<IoBatch> Pop();
  void Ended(const IoBatch& batch);

  bool empty() const { return waiting_ == 0; }
  size_t running() const { return running_; }

 private:
  static bool IsBackground(IoClass io_class) { return io_class >= IoClass::kOffload; }
  std::deque<std::unique_ptr<DiskIo>>& Of(IoClass io_class) {
    return queues_[static_cast<size_t>(io_class)];
  }
  // The first class, from `from` on, that has an I/O waiting; kIoClassCount: none.
  size_t FirstWaiting(IoClass from) const;
  bool MayStart(size_t io_class) const;
  // The class whose turn it is; kIoClassCount: nobody's.
  size_t Turn() const;
  uint64_t& RunningBytes(const IoBatch& batch);
  void Start(const IoBatch& batch);

  const size_t depth_;
  std::array<std::deque<std::unique_ptr<DiskIo>>, kIoClassCount> queues_;
  std::deque<std::unique_ptr<IoBatch>> again_;
  size_t waiting_ = 0;
  size_t running_ = 0;
  uint64_t running_read_bytes_ = 0;  // Foreground and prefetch.
  uint64_t running_background_bytes_ = 0;
  uint64_t overtakes_ = 0;  // Foreground starts since background work last did.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_IO_QUEUE_H_
