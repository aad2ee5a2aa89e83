#include "tier_disk/io/io_queue.h"

#include <utility>

#include "core/check.h"

namespace kvtier {

void IoQueue::Push(std::unique_ptr<DiskIo> io) {
  ++waiting_;
  Of(io->io_class()).push_back(std::move(io));
}

void IoQueue::PushAgain(std::unique_ptr<IoBatch> batch) {
  ++waiting_;
  again_.push_back(std::move(batch));
}

void IoQueue::MoveToForeground(DiskAddress from, uint64_t bytes) {
  std::deque<std::unique_ptr<DiskIo>> stay;
  for (std::unique_ptr<DiskIo>& io : Of(IoClass::kPrefetch)) {
    const bool inside = io->segment() == from.segment && io->offset() >= from.offset &&
                        io->offset() < from.offset + bytes;
    if (inside) io->MoveToForeground();
    (inside ? Of(IoClass::kForeground) : stay).push_back(std::move(io));
  }
  Of(IoClass::kPrefetch) = std::move(stay);
}

size_t IoQueue::FirstWaiting(IoClass from) const {
  auto index = static_cast<size_t>(from);
  while (index < kIoClassCount && queues_[index].empty()) ++index;
  return index;
}

bool IoQueue::MayStart(size_t io_class) const {
  if (IsBackground(IoClass{static_cast<uint8_t>(io_class)})) {
    const bool is_large = queues_[io_class].front()->bytes() > kMaxBatchBytes / 2;
    return running_background_bytes_ < (is_large ? kLargeBackgroundBytes : kBackgroundBytes);
  }
  return running_read_bytes_ < kReadBytes;
}

size_t IoQueue::Turn() const {
  const size_t background = FirstWaiting(IoClass::kOffload);
  if (background < kIoClassCount && overtakes_ >= kMaxOvertakes && MayStart(background)) {
    return background;
  }
  const size_t first = FirstWaiting(IoClass::kForeground);
  return first < kIoClassCount && MayStart(first) ? first : kIoClassCount;
}

bool IoQueue::Ready() const {
  if (running_ >= depth_) return false;
  return !again_.empty() || Turn() < kIoClassCount;
}

std::unique_ptr<IoBatch> IoQueue::Pop() {
  if (!Ready()) return nullptr;
  if (!again_.empty()) {
    std::unique_ptr<IoBatch> batch = std::move(again_.front());
    again_.pop_front();
    --waiting_;
    Start(*batch);
    return batch;
  }
  std::deque<std::unique_ptr<DiskIo>>& queue = queues_[Turn()];
  auto batch = std::make_unique<IoBatch>(std::move(queue.front()));
  queue.pop_front();
  --waiting_;
  while (!queue.empty() && batch->Takes(*queue.front())) {
    batch->Add(std::move(queue.front()));
    queue.pop_front();
    --waiting_;
  }
  const bool background_waits = FirstWaiting(IoClass::kOffload) < kIoClassCount;
  overtakes_ = background_waits && !IsBackground(batch->io_class()) ? overtakes_ + 1 : 0;
  Start(*batch);
  return batch;
}

uint64_t& IoQueue::RunningBytes(const IoBatch& batch) {
  return IsBackground(batch.io_class()) ? running_background_bytes_ : running_read_bytes_;
}

void IoQueue::Start(const IoBatch& batch) {
  ++running_;
  RunningBytes(batch) += batch.bytes();
}

void IoQueue::Ended(const IoBatch& batch) {
  KVT_CHECK(running_ > 0);
  --running_;
  RunningBytes(batch) -= batch.bytes();
}

}  // namespace kvtier
