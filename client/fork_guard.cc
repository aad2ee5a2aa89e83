#include "client/fork_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <new>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Whether this process is a forked child. Relaxed: it is written while the process has one thread.
constinit std::atomic<bool> in_forked_child{false};

// Descriptors and memory that this process must not share with its children.
struct Kept {
  absl::Mutex mu;
  size_t uses ABSL_GUARDED_BY(mu) = 0;
  std::set<int> descriptors ABSL_GUARDED_BY(mu);
  std::map<std::byte*, size_t> memory ABSL_GUARDED_BY(mu);
  // An eventfd that nobody writes, so it never becomes readable. -1: there is none yet.
  int inert ABSL_GUARDED_BY(mu) = -1;
};

Kept& Here();

// Locks the tables from before a fork until after it, so that the child sees them whole.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { Here().mu.Lock(); }
void InParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { Here().mu.Unlock(); }

// Makes a forked child harmless, before it does anything else. It makes system calls only.
void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Kept& kept = Here();
  if (kept.uses > 0) in_forked_child.store(true, std::memory_order_relaxed);
  for (const int fd : kept.descriptors) {
    if (kept.inert < 0) continue;  // The process had no descriptor left for it, and has none now.
    while (dup3(kept.inert, fd, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY)) {
    }
  }
  for (const auto& [at, size] : kept.memory) {
    const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, size, PROT_READ | PROT_WRITE, fixed, -1, 0) != MAP_FAILED) continue;
    // Where the kernel refuses writable memory (strict overcommit), the child still reads zeros.
    // Where it refuses that, too, nothing is mapped: a fault of the child is better than its writes
    // in the node's memory.
    if (mmap(at, size, PROT_READ, fixed, -1, 0) == MAP_FAILED) munmap(at, size);
  }
  kept.mu.Unlock();
  // The threads that hold the mutex or wait for it in the parent do not exist in the child.
  new (&kept.mu) absl::Mutex;
}

Kept& Here() {
  static Kept& kept = *new Kept;
  static const bool watched = [] {
    KVT_CHECK(pthread_atfork(&BeforeFork, &InParent, &InChild) == 0);
    return true;
  }();
  static_cast<void>(watched);
  return kept;
}

}  // namespace

bool InForkedChild() { return in_forked_child.load(std::memory_order_relaxed); }

ClientUse::ClientUse() {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  ++kept.uses;
}

ClientUse::~ClientUse() {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  --kept.uses;
}

void KeepDescriptorFromChildren(int fd) {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  if (kept.inert < 0) kept.inert = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  kept.descriptors.insert(fd);
}

void CloseKeptDescriptor(int fd) {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  kept.descriptors.erase(fd);
  // Nothing is written through these descriptors, so close() has no error to report.
  static_cast<void>(close(fd));
}

void KeepMemoryFromChildren(std::span<std::byte> memory) {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  kept.memory[memory.data()] = memory.size();
}

void ForgetKeptMemory(std::span<std::byte> memory) {
  Kept& kept = Here();
  absl::MutexLock lock(&kept.mu);
  kept.memory.erase(memory.data());
}

}  // namespace kvtier
