// What fork() does to a client. The child has a copy of the client's memory, none of its
// threads, its locks as some thread held them, and its descriptors and mappings in common with
// the parent: one call of the child's through the parent's gRPC channel garbles that channel
// for good, and one hangup of the child's ends the parent's session.
//
// So the client works in the parent alone. In the child, from its first instruction on:
//   * each descriptor of the client is an inert one of the same number, and each mapping is
//     private zeros at the same address. The agent sees the parent's end when it comes, and
//     nothing that the child reads or writes is the node's memory;
//   * InForkedChild() is true: every call is a miss and touches no lock, thread or channel.
//     Clients that are opened there are misses, too, because gRPC is as the fork left it.
// A process that forks while it has no client leaves nothing behind: its children open their own.
#ifndef KVTIER_CLIENT_FORK_GUARD_H_
#define KVTIER_CLIENT_FORK_GUARD_H_

#include <cstddef>
#include <new>
#include <span>

namespace kvtier {

// True in a process that was forked while its parent had a ClientUse, and in all its children.
// One load.
bool InForkedChild();
// What a client says of itself there.
inline constexpr char kForkedText[] =
    "this process was forked from one with an open client; open clients after the fork";

// Held by whatever has a thread, or an object of gRPC's, that no fork survives.
class ClientUse {
 public:
  ClientUse();
  ~ClientUse();
  ClientUse(const ClientUse&) = delete;
  ClientUse& operator=(const ClientUse&) = delete;
};

// Deletes what a shared_ptr held, but in a forked child: there it is left alone, since its
// destructor would wait for threads that do not exist or speak for the parent.
struct DeleteUnlessForked {
  template <typename T>
  void operator()(T* object) const {
    if (!InForkedChild()) delete object;
  }
};

// What `delete` does to an object of a class that has this as its
// `operator delete(T*, std::destroying_delete_t)`: the same as above.
template <typename T>
void DestroyUnlessForked(T* object) {
  if (InForkedChild()) return;
  object->~T();
  ::operator delete(object);
}

// An open descriptor is from now on an inert one in every child that is forked. Idempotent.
void KeepDescriptorFromChildren(int fd);
// Closes it, which ends that: one step, so that no fork sees the number of somebody else.
void CloseKeptDescriptor(int fd);

// Mapped memory is from now on private zeros in every child that is forked.
void KeepMemoryFromChildren(std::span<std::byte> memory);
// Ends that; before the memory is unmapped.
void ForgetKeptMemory(std::span<std::byte> memory);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_FORK_GUARD_H_
