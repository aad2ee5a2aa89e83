// The test program started again as another process: a GPU's context does not survive
// fork(), so what plays the other process begins with exec().
#ifndef KVTIER_TESTS_TESTING_OWN_PROGRAM_H_
#define KVTIER_TESTS_TESTING_OWN_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace kvtier::testing {

// The socket that the other process finds open.
inline constexpr int kInheritedSocket = 99;

// Starts this very program with `arguments`; `socket` is its kInheritedSocket.
pid_t StartOwnProgram(const std::vector<std::string>& arguments, int socket);
// Its exit status once it has ended, or minus the signal that ended it.
int WaitForOwnProgram(pid_t child);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_OWN_PROGRAM_H_
