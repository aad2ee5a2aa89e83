// Holds what all launches share. No header here needs CUDA's headers.
#ifndef KVTIER_KERNELS_LAUNCH_H_
#define KVTIER_KERNELS_LAUNCH_H_

// Marks functions that the host form and the device form of a launch both call.
#ifdef __CUDACC__
#define KVTIER_HOST_DEVICE __host__ __device__
#else
#define KVTIER_HOST_DEVICE
#endif

namespace kvtier::kernels {

// Number of cudaErrorInvalidValue, so that callers need no CUDA header.
inline constexpr int kInvalidLaunch = 1;

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_LAUNCH_H_
