// Arms a kill point in the program into which it is linked: KVTIER_KILL_AT=PLACE:NTH in the
// environment kills it at the nth hit of that place.
#include <cstdlib>
#include <string_view>

#include "core/kill_point.h"

namespace kvtier {
namespace {

const bool armed = [] {
  const char* const given = std::getenv("KVTIER_KILL_AT");
  if (given == nullptr) return false;
  const std::string_view place(given);
  const size_t colon = place.find(':');
  ArmKillPoint(place.substr(0, colon), std::strtoull(given + colon + 1, nullptr, 10));
  return true;
}();

}  // namespace
}  // namespace kvtier
