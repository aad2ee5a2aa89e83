// Hands a region's shape and descriptors to another process of a test.
#ifndef KVTIER_TESTS_TESTING_DESCRIPTOR_PIPE_H_
#define KVTIER_TESTS_TESTING_DESCRIPTOR_PIPE_H_

#include <array>
#include <utility>
#include <vector>

#include "tier_gpu/device/device_region.h"

namespace kvtier::testing {

std::array<int, 2> SocketPair();
void SendShapeAndDescriptors(int socket, const RegionShape& shape,
                             const std::vector<int>& descriptors);
// Waits for a region's shape and descriptors and returns them. No descriptors: the other end is
// closed, or `socket` is no socket.
std::pair<RegionShape, std::vector<int>> ReceiveShapeAndDescriptors(int socket);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_DESCRIPTOR_PIPE_H_
