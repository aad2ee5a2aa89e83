#include "cli/version.h"

#include "absl/strings/str_cat.h"
#include "cli/json.h"
#include "proto/convert.h"

namespace kvtier::cli {

Outcome RunVersion(const Arguments& arguments) {
  if (arguments.format == Format::kTable) {
    return {.out = absl::StrCat("kvtier ", KVTIER_VERSION, ", speaks protocol ",
                                convert::kMinProtocolVersion, " to ", convert::kProtocolVersion,
                                "\n")};
  }
  JsonWriter json;
  json.Text("version", KVTIER_VERSION);
  json.Count("protocol_version", convert::kProtocolVersion);
  json.Count("protocol_min_version", convert::kMinProtocolVersion);
  return {.out = json.Finish()};
}

}  // namespace kvtier::cli
