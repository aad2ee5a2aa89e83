// Runs a grid of CUDA threads on one thread of the host. The threads of a thread block are fibers
// that switch only where they wait for each other: at barriers and at a warp's collectives. A seed
// decides which fiber and which thread block run next. So a missing barrier shows as wrong bytes
// under some seed, and a barrier that not all threads reach ends the program.
//
// Thread blocks run one at a time, in any order, so races between two that run at once do not show.
// Warps have 32 lanes, and a collective is for all of them.
//
// The seed is KVTIER_TEST_SEED, printed by the first launch. Not thread-safe.
#ifndef KVTIER_TESTS_TESTING_HOST_CUDA_THREAD_BLOCK_H_
#define KVTIER_TESTS_TESTING_HOST_CUDA_THREAD_BLOCK_H_

#include <array>
#include <cstdint>
#include <functional>

namespace kvtier::testing::host_cuda {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kMostThreads = 1024;
inline constexpr uint32_t kAllLanes = 0xffffffff;

// Values that lanes bring to a collective, by lane.
using Brought = std::array<uint64_t, kLanes>;

// Returns false under ThreadSanitizer, which cannot follow fibers.
bool CanRun();

// Makes `seed` decide all orders from now on, in the place of KVTIER_TEST_SEED.
void SetOrder(uint64_t seed);

// Runs `body` once for each thread, which threadIdx and blockIdx name. REQUIRES: `threads` is a
// multiple of kLanes, at most kMostThreads; no body calls RunGrid().
void RunGrid(uint32_t thread_blocks, uint32_t threads, const std::function<void()>& body);

// Bodies call these two functions. Each ends the program if not all threads call it, or if they
// come to different calls.

// Waits for all threads of the thread block; returns how many of them passed true.
uint32_t MeetThreadBlock(bool vote);
// Returns what each lane of the warp brought, until the lane's next call.
// REQUIRES: mask == kAllLanes.
const Brought& MeetWarp(const char* what, uint32_t mask, uint64_t brought);

}  // namespace kvtier::testing::host_cuda

#endif  // KVTIER_TESTS_TESTING_HOST_CUDA_THREAD_BLOCK_H_
