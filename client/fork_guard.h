// The fork guard makes clients inert in forked children. A child has a copy of the client's memory,
// none of its threads, its locks as some thread held them, and shares its descriptors and mappings
// with the parent: one call by the child through the parent's gRPC channel garbles that channel
// for ever, and one hangup by the child ends the parent's session.
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

// Returns true in a process that was forked while its parent had a ClientUse, and in all its
// children. One load.
bool InForkedChild();
// Error text of a client in a forked child.
inline constexpr char kForkedText[] =
    "this process was forked from one with an open client, so no client works in it: open the "
    "first client after the fork, or start the process by exec (multiprocessing \"spawn\")";

// ClientUse is held by each object that has a thread, or an object of gRPC's, that does not survive
// a fork.
class ClientUse {
 public:
  ClientUse();
  ~ClientUse();
  ClientUse(const ClientUse&) = delete;
  ClientUse& operator=(const ClientUse&) = delete;
};

// Deletes the object of a shared_ptr, except in a forked child: there its destructor would wait for
// threads that do not exist, or speak for the parent.
struct DeleteUnlessForked {
  template <typename T>
  void operator()(T* object) const {
    if (!InForkedChild()) delete object;
  }
};

// Destroys and frees the object, except in a forked child; for a class that calls this from its
// `operator delete(T*, std::destroying_delete_t)`.
template <typename T>
void DestroyUnlessForked(T* object) {
  if (InForkedChild()) return;
  object->~T();
  ::operator delete(object);
}

// Makes an open descriptor inert in every child that is forked from now on. Idempotent.
void KeepDescriptorFromChildren(int fd);
// Closes the descriptor and forgets it in one step, so that no fork makes another file with the
// same number inert.
void CloseKeptDescriptor(int fd);

// Makes mapped memory private zeros in every child that is forked from now on.
void KeepMemoryFromChildren(std::span<std::byte> memory);
// Undoes KeepMemoryFromChildren(); called before the memory is unmapped.
void ForgetKeptMemory(std::span<std::byte> memory);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_FORK_GUARD_H_
