#include "tests/testing/host_cuda/thread_block.h"

#include <cuda_runtime.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/testing/test_seed.h"
#ifdef KVTIER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

// Bounds of the section with the kernels' shared memory; absent if no kernel has any.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern char __start_kvtier_shared[] __attribute__((weak));
extern char __stop_kvtier_shared[] __attribute__((weak));
// NOLINTEND(bugprone-reserved-identifier)

namespace kvtier::testing::host_cuda {
namespace {

// Bytes of a fiber's stack. Kernels' frames are small, and AddressSanitizer clears a whole stack at
// each switch.
constexpr size_t kStackBytes = size_t{64} << 10;

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "host_cuda: thread block %u: %s\n", blockIdx.x, why);
  std::abort();
}

// Fiber runs bodies on its own stack, one body after another. Its context is made once; from then
// on setjmp and longjmp switch to the context and back, without a system call.
class Fiber {
 public:
  Fiber()
      : stack_(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0)) {
    if (stack_ == MAP_FAILED) Die("no memory for a stack");
  }
  ~Fiber() { munmap(stack_, kStackBytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Starts or continues the body; returns when the body ends or calls Leave().
  void Enter(const std::function<void()>& body) {
    body_ = &body;
    SwitchStack(&outside_frames_, stack_, kStackBytes);
    if (_setjmp(outside_) == 0) {
      if (started_) _longjmp(inside_, 1);
      started_ = true;
      ucontext_t context;
      ucontext_t nowhere;
      getcontext(&context);
      context.uc_stack.ss_sp = stack_;
      context.uc_stack.ss_size = kStackBytes;
      context.uc_link = nullptr;
      const auto self = reinterpret_cast<uint64_t>(this);
      makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::Start), 2,
                  static_cast<uint32_t>(self >> 32), static_cast<uint32_t>(self));
      swapcontext(&nowhere, &context);
    }
    Arrive();
  }

  // Makes Enter() return; the next Enter() goes on here. Only the body calls it.
  void Leave() {
    SwitchStack(&inside_frames_, outside_stack_, outside_bytes_);
    if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
    ArriveInside();
  }

  bool ended() const { return ended_; }
  void Reset() { ended_ = false; }

 private:
  static void Start(uint32_t high, uint32_t low) {
    auto* const self = std::bit_cast<Fiber*>(uint64_t{high} << 32 | low);
    self->ArriveInside();
    while (true) {
      (*self->body_)();
      self->ended_ = true;
      self->Leave();
    }
  }

#ifdef KVTIER_ASAN
  static void SwitchStack(void** frames, const void* bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(frames, bottom, bytes);
  }
  void Arrive() { __sanitizer_finish_switch_fiber(outside_frames_, nullptr, nullptr); }
  void ArriveInside() {
    __sanitizer_finish_switch_fiber(inside_frames_, &outside_stack_, &outside_bytes_);
  }
#else
  static void SwitchStack(void** /*frames*/, const void* /*bottom*/, size_t /*bytes*/) {}
  void Arrive() {}
  void ArriveInside() {}
#endif

  void* const stack_;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
  void* outside_frames_ = nullptr;
  void* inside_frames_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  bool started_ = false;
  bool ended_ = false;
  jmp_buf inside_;
  jmp_buf outside_;
};

struct Thread {
  Fiber fiber;
  uint32_t calls = 0;  // Calls of MeetWarp().
};

// Meeting is a barrier: the threads that wait there, and the call that the first of them makes.
struct Meeting {
  std::vector<uint32_t> waiting;
  const char* what = nullptr;
};

struct Warp {
  Meeting meeting;
  std::array<Brought, 2> brought;  // Used in turn: a slow lane may still read the last one.
};

// The thread block that runs.
struct Running {
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Warp> warps;
  std::vector<uint32_t> ready;
  Meeting barrier;
  uint32_t votes = 0;       // Votes of the threads that wait at the barrier.
  uint32_t last_votes = 0;  // Votes at the last barrier that all reached.
  uint32_t count = 0;
  uint32_t ended = 0;
  bool active = false;
  std::optional<std::mt19937_64> random;
};

Running& Block() {
  static Running block;
  return block;
}

std::mt19937_64& Random() {
  Running& block = Block();
  if (!block.random) block.random.emplace(TestSeed());
  return *block.random;
}

void WakeAll(Meeting& meeting) {
  Running& block = Block();
  block.ready.insert(block.ready.end(), meeting.waiting.begin(), meeting.waiting.end());
  meeting.waiting.clear();
}

// Makes the thread wait until `everyone` threads have come; the last one makes all of them ready.
void Meet(Meeting& meeting, uint32_t everyone) {
  Running& block = Block();
  const uint32_t self = threadIdx.x;
  meeting.waiting.push_back(self);
  if (meeting.waiting.size() == everyone) {
    WakeAll(meeting);
  }
  block.threads[self]->fiber.Leave();
}

void RunThread(uint32_t thread, const std::function<void()>& body) {
  Running& block = Block();
  threadIdx = {thread, 0, 0};
  Fiber& fiber = block.threads[thread]->fiber;
  fiber.Enter(body);
  if (fiber.ended()) ++block.ended;
}

void RunThreadBlock(const std::function<void()>& body) {
  Running& block = Block();
  std::mt19937_64& random = Random();
  for (char* at = __start_kvtier_shared; at < __stop_kvtier_shared; at += sizeof(uint64_t)) {
    const uint64_t noise = random();
    std::memcpy(at, &noise, std::min<size_t>(sizeof(noise), __stop_kvtier_shared - at));
  }
  block.ended = 0;
  block.votes = 0;
  block.warps.resize(block.count / kLanes);
  block.ready.clear();
  for (uint32_t i = 0; i < block.count; ++i) {
    block.threads[i]->fiber.Reset();
    block.threads[i]->calls = 0;
    block.ready.push_back(i);
  }
  while (!block.ready.empty()) {
    std::swap(block.ready[random() % block.ready.size()], block.ready.back());
    const uint32_t next = block.ready.back();
    block.ready.pop_back();
    RunThread(next, body);
  }
  if (block.ended != block.count) Die("some threads wait for others that have ended");
}

// Bytes of guard on each side of an allocation, which show writes beside it when it is freed.
constexpr size_t kGuardBytes = 64;
constexpr char kGuard = 0x5c;

// Returns the bytes of each allocation, by its address.
std::map<const char*, size_t>& Allocations() {
  static std::map<const char*, size_t> allocations;
  return allocations;
}

bool IsGuard(const char* from) {
  return std::all_of(from, from + kGuardBytes, [](char byte) { return byte == kGuard; });
}

// Returns whether all of the memory lies in one allocation.
bool IsAllocated(const void* memory, size_t bytes) {
  const auto* const from = static_cast<const char*>(memory);
  const auto after = Allocations().upper_bound(from);
  if (after == Allocations().begin()) return false;
  const auto& [begin, all] = *std::prev(after);
  const auto offset = static_cast<size_t>(from - begin);
  return offset <= all && bytes <= all - offset;
}

}  // namespace

bool CanRun() {
#ifdef KVTIER_TSAN
  return false;
#else
  return true;
#endif
}

void SetOrder(uint64_t seed) { Block().random.emplace(seed); }

void RunGrid(uint32_t thread_blocks, uint32_t threads, const std::function<void()>& body) {
  Running& block = Block();
  if (!CanRun() || block.active) Die("cannot run here");
  if (threads == 0 || threads % kLanes != 0 || threads > kMostThreads) Die("not whole warps");
  block.active = true;
  block.count = threads;
  while (block.threads.size() < threads) block.threads.push_back(std::make_unique<Thread>());
  gridDim = {thread_blocks, 1, 1};
  blockDim = {threads, 1, 1};
  std::vector<uint32_t> order(thread_blocks);
  for (uint32_t i = 0; i < thread_blocks; ++i) order[i] = i;
  for (uint32_t i = thread_blocks; i > 1; --i) std::swap(order[i - 1], order[Random()() % i]);
  for (const uint32_t i : order) {
    blockIdx = {i, 0, 0};
    RunThreadBlock(body);
  }
  block.active = false;
}

uint32_t MeetThreadBlock(bool vote) {
  Running& block = Block();
  block.votes += vote ? 1 : 0;
  if (block.barrier.waiting.size() + 1 == block.count) {
    block.last_votes = block.votes;
    block.votes = 0;
  }
  Meet(block.barrier, block.count);
  // This does not change before all threads have left, because only the next barrier changes it.
  return block.last_votes;
}

const Brought& MeetWarp(const char* what, uint32_t mask, uint64_t brought) {
  Running& block = Block();
  if (mask != kAllLanes) Die("a collective that is not for the whole warp");
  Thread& self = *block.threads[threadIdx.x];
  Warp& warp = block.warps[threadIdx.x / kLanes];
  Brought& all = warp.brought[self.calls++ % 2];
  all[threadIdx.x % kLanes] = brought;
  if (warp.meeting.waiting.empty()) warp.meeting.what = what;
  if (std::strcmp(warp.meeting.what, what) != 0) Die("lanes of a warp at different collectives");
  Meet(warp.meeting, kLanes);
  return all;
}

}  // namespace kvtier::testing::host_cuda

namespace host_cuda = kvtier::testing::host_cuda;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = host_cuda::CanRun() ? 1 : 0;
  return *count == 1 ? cudaSuccess : cudaErrorNotSupported;
}
const char* cudaGetErrorString(cudaError_t error) {
  if (error != cudaErrorNotSupported) return error == cudaSuccess ? "no error" : "an error";
  return "threads are fibers of one thread here, whose stacks ThreadSanitizer cannot follow";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  // This is the least alignment on which kernels may rely; more would hide mistakes.
  void* guarded = nullptr;
  if (posix_memalign(&guarded, 16, bytes + 2 * host_cuda::kGuardBytes) != 0) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(guarded, host_cuda::kGuard, bytes + 2 * host_cuda::kGuardBytes);
  char* const begin = static_cast<char*>(guarded) + host_cuda::kGuardBytes;
  std::memset(begin, 0xa5, bytes);
  host_cuda::Allocations()[begin] = bytes;
  *memory = begin;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  char* const begin = static_cast<char*>(memory);
  const auto found = host_cuda::Allocations().find(begin);
  if (found == host_cuda::Allocations().end()) return cudaErrorInvalidValue;
  const bool whole = host_cuda::IsGuard(begin - host_cuda::kGuardBytes) &&
                     host_cuda::IsGuard(begin + found->second);
  if (!whole) host_cuda::Die("something was written outside of an allocation");
  host_cuda::Allocations().erase(found);
  std::free(begin - host_cuda::kGuardBytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (!host_cuda::IsAllocated(kind == cudaMemcpyHostToDevice ? to : from, bytes)) {
    return cudaErrorInvalidValue;
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
