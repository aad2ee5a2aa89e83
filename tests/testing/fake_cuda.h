// A GPU of the tests: what CudaDevice calls of CUDA's runtime and driver, over host memory,
// with a thread that runs the streams. A test that links fake_cuda*.cc gets these in the
// place of CUDA's own, and needs neither driver nor GPU.
//
// It is stricter than a GPU: addresses of the device are not the host's, so that one in
// the place of the other is found; a stream that would make its caller wait for room
// aborts; streams run interleaved at random, and so do the copies of one batch; a copy is refused
// unless all bytes of each side lie in one allocation (a mapped handle is one) that may be
// accessed, and aborts if they are gone when its turn comes; new memory is not zero; what not every
// GPU has is used only after the driver was asked about it.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

namespace kvtier::testing::fake_cuda {

// Distance of a device address from the host address where its bytes lie.
inline constexpr uint64_t kDeviceSide = uint64_t{1} << 58;

// The next entry that moves bytes fails, as a wild address would: nothing runs any more,
// and every call answers with the error. Until Repair().
void FailNextMove();
// The nth call from here on that moves bytes is refused, with an error of this call alone.
void RefuseMove(uint64_t nth);
inline void RefuseNextMove() { RefuseMove(1); }
// The next call by which a stream is to wait for a word is refused in the same way.
void RefuseNextWait();
// Restores the state of a new process. REQUIRES: no device is open.
void Repair();
// A stream of somebody else's captures a graph in CUDA's mode "global": calls that could
// disturb it are refused on every thread whose own mode is not "relaxed", and spoil it.
// REQUIRES: none captures yet.
void BeginCapture(void* stream);
// True: nothing spoilt the graph.
bool EndCapture();
inline constexpr int kDriverVersion = 13000;
// Sets the driver's version of CUDA, until Repair(); below 12080 it refuses batched copies.
void SetDriverVersion(int version);
// Returns the bytes of page-locked memory that is registered now.
uint64_t RegisteredBytes();
// Makes a full stream let its caller wait from now on, as a GPU's does: for a benchmark that does
// what our code never may.
void LetCallersWait();
// Registrations until one fails for want of memory; 0: none will.
void FailRegistration(uint64_t nth);

// Where the byte of a device address lies. Aborts if it is none.
std::byte* HostSide(const void* device);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_H_
