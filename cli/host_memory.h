// Host memory of an agent: `kvtier host resize` brings it to another size, and status shows what it
// is cut into.
#ifndef KVTIER_CLI_HOST_MEMORY_H_
#define KVTIER_CLI_HOST_MEMORY_H_

#include <string>

#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// REQUIRES: arguments.resize_bytes is not 0.
Outcome RunHostResize(const Arguments& arguments);

// Returns one line: the size, what of it is free, and what is lost to the sizes of blocks.
std::string HostMemoryText(const v1::HostMemoryReport& memory);
// Returns a row for each size of slots, the largest in all first, kMaxSlotSizeRows at most; nothing
// where no slot is used.
std::string SlotSizeLines(const v1::HostMemoryReport& memory);
inline constexpr int kMaxSlotSizeRows = 8;
void WriteHostMemory(const v1::HostMemoryReport& memory, JsonWriter* json);

// Returns how far the scrub of host memory is.
std::string HostScrubText(const v1::HostScrubReport& scrub);
void WriteHostScrub(const v1::HostScrubReport& scrub, JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_HOST_MEMORY_H_
