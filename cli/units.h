// Numbers as people read them in tables. JSON carries the plain ones.
#ifndef KVTIER_CLI_UNITS_H_
#define KVTIER_CLI_UNITS_H_

#include <cstdint>
#include <string>

namespace kvtier::cli {

// Returns "0 B", "4.00 KiB", "1.50 GiB": three significant digits, powers of 1024.
std::string BytesText(uint64_t bytes);

// Returns "850 us", "1.20 ms", "2.00 s", "5 min 3 s", "3 d 4 h". Zero is "0 s"; what is negative or
// not a number is "?".
std::string SecondsText(double seconds);

// Returns the number as "12,345,678".
std::string CountText(uint64_t count);

// Returns "75.0 %", the share of `part` in `whole`; "-" when the whole is 0.
std::string ShareText(uint64_t part, uint64_t whole);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_UNITS_H_
