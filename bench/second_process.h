// What both processes of the benchmark do: the program starts itself again, with --child
// and the numbers of the descriptors that the second process inherits.
#ifndef KVTIER_BENCH_SECOND_PROCESS_H_
#define KVTIER_BENCH_SECOND_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tier_gpu/device/device.h"

namespace kvtier::bench {

// A duplicate that a program started by us inherits.
int Inherited(int descriptor);
// It dies when this process does, or at the latest when it awaits a word in vain.
pid_t StartChild(const std::string& device, const std::string& child);
// What StartChild()'s process does first.
void DieWithParent();
// kill -9, and waits for its end. REQUIRES: it has not ended by itself.
void KillChild(pid_t child);

// Polls, and forgets what has ended; aborts if it failed.
void Turn(Device* device);
// Until the word is `value` or more. Aborts, and says why, when that takes ten seconds, or
// when `other`, a child, has ended; 0: nobody is looked at.
void AwaitWord(Device* device, const SignalWord& word, uint64_t value, pid_t other);
// One copy, to its end.
void CopyNow(Device* device, DeviceRegion* region, CopyDirection direction,
             const CopySegment& segment);
// Nanoseconds of a clock that all processes share.
uint64_t SharedNow();

// The second process as the owner of the memory: creates it, hands it over through the
// socket, and copies until it is killed.
int RunOwner(const std::string& device, int socket);
// Starts an owner, takes its memory over, kills it; seconds from then until the memory
// was read, every byte as it must be, and written.
double MeasureOwnersDeath(Device* device, const std::string& device_name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_SECOND_PROCESS_H_
