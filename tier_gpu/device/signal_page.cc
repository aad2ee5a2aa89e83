#include "tier_gpu/device/signal_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_gpu/device/sealed_memory.h"

namespace kvtier {
namespace {

constexpr size_t kWordStride = kSignalPageBytes / kSignalWords;

}  // namespace

absl::StatusOr<std::unique_ptr<SignalPage>> SignalPage::Create() {
  KVT_ASSIGN_OR_RETURN(const int descriptor,
                       CreateSealedMemory("kvtier-signals", kSignalPageBytes));
  void* const start =
      mmap(nullptr, kSignalPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) {
    const absl::Status failed = MemoryError("mmap", kSignalPageBytes);
    close(descriptor);
    return failed;
  }
  return absl::WrapUnique(
      new SignalPage(descriptor, {static_cast<std::byte*>(start), kSignalPageBytes}));
}

SignalPage::~SignalPage() {
  munmap(bytes_.data(), bytes_.size());
  close(descriptor_);
}

SignalWord* SignalPage::word(size_t index) const {
  KVT_CHECK(index < kSignalWords);
  return reinterpret_cast<SignalWord*>(bytes_.data() + index * kWordStride);
}

void SignalPage::Release(size_t first, size_t count) const {
  for (size_t i = first; i < first + count; ++i) word(i)->store(kReleased);
}

}  // namespace kvtier
