#include "tests/testing/descriptor_pipe.h"

#include <sys/socket.h>

#include <cstring>

#include "core/check.h"

namespace kvtier::testing {
namespace {

constexpr size_t kMaxDescriptors = 8;

// Message is one message, with the shape and the descriptors beside it.
struct Message {
  explicit Message(RegionShape* shape) : text{.iov_base = shape, .iov_len = sizeof(*shape)} {
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  iovec text;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))]{};
  msghdr header{};
};

}  // namespace

std::array<int, 2> SocketPair() {
  std::array<int, 2> ends{};
  KVT_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return ends;
}

void SendShapeAndDescriptors(int socket, const RegionShape& shape,
                             const std::vector<int>& descriptors) {
  KVT_CHECK(!descriptors.empty() && descriptors.size() <= kMaxDescriptors);
  RegionShape copy = shape;
  Message message(&copy);
  message.header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  KVT_CHECK(sendmsg(socket, &message.header, MSG_NOSIGNAL) ==
            static_cast<ssize_t>(sizeof(RegionShape)));
}

std::pair<RegionShape, std::vector<int>> ReceiveShapeAndDescriptors(int socket) {
  RegionShape shape;
  Message message(&shape);
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) !=
      static_cast<ssize_t>(sizeof(RegionShape))) {
    return {};
  }
  std::vector<int> descriptors;
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header); rights != nullptr) {
    descriptors.resize((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(descriptors.data(), CMSG_DATA(rights), descriptors.size() * sizeof(int));
  }
  return {shape, descriptors};
}

}  // namespace kvtier::testing
