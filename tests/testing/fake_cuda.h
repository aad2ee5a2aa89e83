// A GPU of the tests: what CudaDevice calls of CUDA's runtime and driver, over host memory,
// with a thread that runs the streams. A test that links fake_cuda*.cc gets these in the
// place of CUDA's own, and needs neither driver nor GPU.
//
// It is stricter than a GPU: addresses of the device are not the host's, so that one in
// the place of the other is found; a stream that would make its caller wait for room
// aborts; streams run interleaved at random, and so do the copies of one batch.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

namespace kvtier::testing::fake_cuda {

// What a device address is above the host's where the bytes lie.
inline constexpr uint64_t kDeviceSide = uint64_t{1} << 58;

// The next entry that moves bytes fails, as a wild address would: nothing runs any more,
// and every call answers with the error. Until Repair().
void FailNextMove();
// The next entry that moves bytes is refused when it is put into its stream; all else
// goes on.
void RefuseNextMove();
// As in a new process. REQUIRES: no device is open.
void Repair();
// A stream of somebody else's captures a graph in CUDA's mode "global": calls that could
// disturb it are refused on every thread whose own mode is not "relaxed", and spoil it.
// REQUIRES: none captures yet.
void BeginCapture(void* stream);
// True: nothing spoilt the graph.
bool EndCapture();
inline constexpr int kDriverVersion = 13000;
// What the driver calls its CUDA, until Repair(); below 12080 it refuses batched copies.
void SetDriverVersion(int version);
// Of page-locked memory that is registered now.
uint64_t RegisteredBytes();
// From here on a full stream makes its caller wait, as a GPU's does: for a benchmark that
// does what ours never may.
void LetCallersWait();
// Registrations until one fails for want of memory; 0: none will.
void FailRegistration(uint64_t nth);

// Where the bytes of a device address lie, for the fake's own parts. Aborts if it is none.
std::byte* HostSide(const void* device);
void AddRegistered(const void* host, uint64_t bytes);
void RemoveRegistered(const void* host);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_H_
