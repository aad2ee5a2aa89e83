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

// Relaxed: it is written where a process has one thread only.
constinit std::atomic<bool> in_forked_child{false};

// Descriptors and memory that this process must not share with its children.
struct Kept {
  absl::Mutex mu;
  size_t uses ABSL_GUARDED_BY(mu) = 0;
  std::set<int> descriptors ABSL_GUARDED_BY(mu);
  std::map<std::byte*, size_t> memory ABSL_GUARDED_BY(mu);
  // An eventfd that nobody writes to: never readable, and no socket. -1: there is none yet.
  int inert ABSL_GUARDED_BY(mu) = -1;
};

Kept& Here();

// Forks see the tables whole: nobody changes them from before the fork until after it.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { Here().mu.Lock(); }
void InParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { Here().mu.Unlock(); }

// Between fork() and whatever the child does: system calls only.
void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Kept& kept = Here();
  if (kept.uses > 0) in_forked_child.store(true, std::memory_order_relaxed);
  for (const int fd : kept.descriptors) {
    if (kept.inert < 0) continue;  // No descriptor was left for it: nor is there one now.
    while (dup3(kept.inert, fd, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY)) {
    }
  }
  for (const auto& [at, size] : kept.memory) {
    const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, size, PROT_READ | PROT_WRITE, fixed, -1, 0) != MAP_FAILED) continue;
    // Where memory must not be promised beyond what there is, zeros can still be read. Else
    // nothing is there: a fault of the child is better than its writes in the node's memory.
    if (mmap(at, size, PROT_READ, fixed, -1, 0) == MAP_FAILED) munmap(at, size);
  }
  kept.mu.Unlock();
  // Threads that wait for it in the parent are not here to be woken, or to be waited for.
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
  // Nothing is written through these descriptors, so close() has nothing to report.
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
