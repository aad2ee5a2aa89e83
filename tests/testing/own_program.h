// Starts the test program again as another process. A GPU's context does not survive fork(), so the
// other process begins with exec().
#ifndef KVTIER_TESTS_TESTING_OWN_PROGRAM_H_
#define KVTIER_TESTS_TESTING_OWN_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace kvtier::testing {

// Number of the socket that the other process finds open.
inline constexpr int kInheritedSocket = 99;

// Starts this very program with `arguments`; `socket` is its kInheritedSocket.
pid_t StartOwnProgram(const std::vector<std::string>& arguments, int socket);
// Waits until the process ends; returns its exit status, or minus the signal that ended it.
int WaitForOwnProgram(pid_t child);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_OWN_PROGRAM_H_
