#include "cli/version.h"

#include "absl/strings/str_cat.h"
#include "cli/json.h"
#include "proto/convert.h"
#include "proto/layout_digest.h"

namespace kvtier::cli {

Outcome RunVersion(const Arguments& arguments) {
  const std::string layout = wire::LayoutText(wire::LayoutDigest(convert::kProtocolVersion));
  if (arguments.format == Format::kTable) {
    return {.out = absl::StrCat("kvtier ", KVTIER_VERSION, ", speaks protocol ",
                                convert::kMinProtocolVersion, " to ", convert::kProtocolVersion,
                                ", layout ", layout, "\n")};
  }
  JsonWriter json;
  json.Text("version", KVTIER_VERSION);
  json.Count("protocol_version", convert::kProtocolVersion);
  json.Count("protocol_min_version", convert::kMinProtocolVersion);
  json.Text("protocol_layout", layout);
  return {.out = json.Finish()};
}

}  // namespace kvtier::cli
