// A fake GPU for tests: the functions of CUDA's runtime and driver that CudaDevice calls, over host
// memory, with a thread that runs the streams. A test that links fake_cuda*.cc gets these in the
// place of CUDA's own, and needs neither driver nor GPU.
//
// It is stricter than a GPU, so that mistakes are found:
// * Addresses of the device are not the host's.
// * A stream that would make its caller wait for room aborts.
// * Streams run interleaved at random, and so do the copies of one batch.
// * A copy is refused unless all bytes of each side lie in one allocation (a mapped handle is one)
//   that may be accessed. It aborts if they are gone when its turn comes.
// * New memory is not zero.
// * A feature that not every GPU has works only after the driver was asked about it.
#ifndef KVTIER_TESTS_TESTING_FAKE_CUDA_H_
#define KVTIER_TESTS_TESTING_FAKE_CUDA_H_

#include <cstddef>
#include <cstdint>

namespace kvtier::testing::fake_cuda {

// Distance of a device address from the host address where its bytes lie.
inline constexpr uint64_t kDeviceSide = uint64_t{1} << 58;

// Makes the next entry that moves bytes fail, as after an access to a wrong address: until Repair()
// no stream runs any more, and every call returns the error.
void FailNextMove();
// Makes the nth call from now on that moves bytes return an error; later calls are not affected.
void RefuseMove(uint64_t nth);
inline void RefuseNextMove() { RefuseMove(1); }
// Makes the next call that lets a stream wait for a word return an error, as RefuseMove() does.
void RefuseNextWait();
// Restores the state of a new process. REQUIRES: no device is open.
void Repair();
// Begins a capture of the stream, as an engine may, in CUDA's mode "global": calls that could
// disturb it are refused on every thread whose own mode is not "relaxed", and spoil the graph.
// REQUIRES: no stream captures yet.
void BeginCapture(void* stream);
// Ends the capture; returns whether no call spoilt the graph.
bool EndCapture();
inline constexpr int kDriverVersion = 13000;
// Sets the driver's version of CUDA, until Repair(); below 12080 it refuses batched copies.
void SetDriverVersion(int version);
// Returns the bytes of page-locked memory that is registered now.
uint64_t RegisteredBytes();
// Makes calls on a full stream wait from now on, as a GPU's do. For a benchmark of calls that
// kvtier's code never makes.
void LetCallersWait();
// Makes the nth registration from now on fail for want of memory; 0: none will.
void FailRegistration(uint64_t nth);

// Returns the host's address of a byte of the device. Aborts if `device` is no address of it.
std::byte* HostSide(const void* device);

}  // namespace kvtier::testing::fake_cuda

#endif  // KVTIER_TESTS_TESTING_FAKE_CUDA_H_
